// Pieces of text as text nodes: a policy's text is never parsed as HTML.
import { h } from "vue";

const span = ([text, kind, title]) =>
  kind || title ? h("span", { class: kind || undefined, title: title || undefined }, text) : text;

export default {
  props: { pieces: Array, tag: String },
  render() {
    return h(this.tag || "div", { dir: "auto" }, (this.pieces || []).map(span));
  },
};
