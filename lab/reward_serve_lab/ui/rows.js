// A table of text pieces. Rows that can be opened handle focus, Enter and the arrow keys.
import { h } from "vue";

const span = ([text, kind, title]) =>
  kind || title ? h("span", { class: kind || undefined, title: title || undefined }, text) : text;

const bar = (value) =>
  h("span", { class: "advantage", "aria-hidden": "true" }, [
    h("span", {
      class: value < 0 ? "down" : "up",
      style: { width: `${Math.min(50, Math.abs(value) * 50)}%` },
    }),
  ]);

export default {
  props: { columns: Array, rows: Array, openable: Boolean, caption: String },
  emits: ["open"],
  methods: {
    onKey(event, index) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        const row = event.currentTarget.parentElement.children[index + step];
        if (row) row.focus();
        event.preventDefault();
      } else if (event.key === "Enter" || event.key === " ") {
        this.$emit("open", index);
        event.preventDefault();
      }
    },
    cell(column, cell) {
      const content = cell.pieces.map(span);
      if (cell.bar !== undefined && cell.bar !== null) content.unshift(bar(cell.bar));
      const attributes = { class: column.kind, "data-label": column.label };
      return h("td", attributes, h("span", { class: "cell", dir: "auto" }, content));
    },
    row(row, index) {
      const attributes = { class: row.kind, key: index };
      if (this.openable) {
        attributes.tabindex = 0;
        attributes["aria-label"] = row.label;
        attributes.onClick = () => this.$emit("open", index);
        attributes.onKeydown = (event) => this.onKey(event, index);
      }
      return h(
        "tr",
        attributes,
        row.cells.map((cell, at) => this.cell(this.columns[at], cell)),
      );
    },
  },
  render() {
    const heads = this.columns.map((column) =>
      h("th", { class: column.kind, scope: "col" }, column.label),
    );
    return h("table", { class: ["rows", this.openable ? "openable" : ""] }, [
      this.caption ? h("caption", this.caption) : null,
      h("thead", h("tr", heads)),
      h("tbody", (this.rows || []).map(this.row)),
    ]);
  },
};
