// Tables say in numbers what charts show; all texts go into text nodes.
function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// columns: {title, value, show?, number?, head?}; rows are sorted by `value` when a title is pressed,
// and stay so when a run goes on. Who works with the keyboard stays where they are.
const orders = new Map(), LONG = 250; // rows of a table that is laid out only in view
function fillTable(id, columns, rows) {
  const table = document.getElementById(id), caption = table.querySelector("caption");
  const sorted = orders.get(id) || { column: -1, down: false };
  const held = table.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") || document.activeElement.textContent : null;
  const head = element("thead"), line = element("tr"), body = element("tbody");
  const numeric = (column) => (column.number ? { class: "number" } : {});
  columns.forEach((column, index) => {
    const cell = element("th", null, { scope: "col", ...numeric(column) });
    if (column.value) {
      const button = element("button", column.title, { type: "button" });
      button.addEventListener("click", () => {
        orders.set(id, { column: index, down: sorted.column === index ? !sorted.down : Boolean(column.number) });
        fillTable(id, columns, rows);
      });
      cell.append(button);
      if (sorted.column === index) cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
    } else cell.append(element("span", column.title, { class: "hidden" }));
    line.append(cell);
  });
  head.append(line);
  let ordered = rows;
  if (sorted.column >= 0) {
    const { value } = columns[sorted.column], sign = sorted.down ? -1 : 1;
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : (a ?? -Infinity) - (b ?? -Infinity));
    ordered = [...rows].sort((a, b) => sign * compare(value(a), value(b)));
  }
  for (const row of ordered) {
    const made = element("tr");
    for (const column of columns) {
      const cell = element(column.head ? "th" : "td", null, { ...(column.head ? { scope: "row" } : {}), ...numeric(column) });
      const shown = (column.show || column.value)(row);
      cell.append(shown instanceof Node ? shown : document.createTextNode(shown ?? ""));
      made.append(cell);
    }
    body.append(made);
  }
  table.replaceChildren(caption, head, body);
  table.parentElement.classList.toggle("long", rows.length > LONG);
  if (held !== null) [...table.querySelectorAll("button, input, a")].find((one) => (one.getAttribute("aria-label") || one.textContent) === held)?.focus({ preventScroll: true });
}

function tile(name, value, note) {
  const box = element("div");
  box.append(element("dt", name), element("dd", value));
  if (note) box.append(element("dd", note, { class: "note" }));
  return box;
}
