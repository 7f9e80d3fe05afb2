// Pieces of text as text nodes: a policy's text is never parsed as HTML.
import { h } from "vue";

const span = ([text, kind, title]) =>
  kind || title ? h("span", { class: kind || undefined, title: title || undefined }, text) : text;

export default {
  props: { pieces: Array, tag: String },
  mounted() {
    // A box that scrolls must be reachable by keyboard.
    const box = this.$el;
    if (box.classList.contains("text-box") && box.scrollHeight > box.clientHeight) box.tabIndex = 0;
  },
  render() {
    return h(this.tag || "div", { dir: "auto" }, (this.pieces || []).map(span));
  },
};
