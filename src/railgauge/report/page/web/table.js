"use strict";
// Tables that sort, filter and copy as TSV. A source has rows by number, so that a hundred thousand
// of them cost nothing until they are shown.

const SHOWN_ROWS = 200;

// Fewer are seen at once, and need no filter.
const LEAST_ROWS = 6;

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Numbers before texts, numbers by value, texts with their numbers in order: n2 before n10.
const byText = new Intl.Collator("en", { numeric: true });
function leading(text) {
  const found = /^[<>=±\s]*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)/i.exec(text);
  return found ? Number(found[1]) : NaN;
}

// Whether a text has a word somewhere; "n4" in quotes stands alone, or between colons.
function holds(text, word) {
  const quoted = /^"(.+)"$/.exec(word);
  return quoted ? text.split(/[\s:]+/).includes(quoted[1]) : text.includes(word);
}

class DomRows {
  constructor(body) { this.rows = [...body.rows]; }
  get length() { return this.rows.length; }
  cells(row) { return [...this.rows[row].cells].map((cell) => cell.textContent); }
  text(row) { return this.cells(row).join(" ").toLowerCase(); }
  node(row) { return this.rows[row]; }
  key(row, column) { return this.rows[row].cells[column].textContent; }
}

class DataTable {
  constructor(box, source) {
    this.source = source;
    this.body = box.querySelector("tbody");
    this.heads = [...box.querySelectorAll("thead th")];
    this.count = box.querySelector(".tools .count");
    this.input = box.querySelector("input[type=search]");
    this.order = Array.from({ length: source.length }, (_, row) => row);
    this.shown = this.order;
    this.most = SHOWN_ROWS;
    this.heads.forEach((head, column) => this.sortable(head, column));
    let timer;
    this.input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.filter(), 120);
    });
    const copy = box.querySelector(".copy");
    copy.addEventListener("click", () => this.copy(copy));
    this.more = element("button", "", "more");
    this.more.type = "button";
    this.more.addEventListener("click", () => { this.most *= 4; this.draw(); });
    box.append(this.more);
    box.querySelector(".tools").hidden = source.length < 2;
    box.querySelector(".tools label").hidden = source.length < LEAST_ROWS;
    this.filter();
  }

  sortable(head, column) {
    const button = element("button", head.textContent);
    button.type = "button";
    head.replaceChildren(button);
    button.addEventListener("click", () => this.sort(column));
  }

  sort(column) {
    const down = this.heads[column].getAttribute("aria-sort") === "ascending";
    this.heads.forEach((head) => head.removeAttribute("aria-sort"));
    this.heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
    const sign = down ? -1 : 1;
    const numeric = this.heads[column].classList.contains("n");
    const keys = this.order.length ? new Array(this.source.length) : [];
    for (const row of this.order) {
      const key = this.source.key(row, column);
      keys[row] = numeric && typeof key === "string" ? leading(key) : key;
    }
    this.order.sort((a, b) => {
      const x = keys[a], y = keys[b];
      if (typeof x === "number") {
        const noX = Number.isNaN(x), noY = Number.isNaN(y);
        return noX || noY ? noX - noY : sign * (x - y);
      }
      return sign * byText.compare(x, y);
    });
    this.filter();
  }

  filter() {
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.shown = words.length
      ? this.order.filter((row) => {
          const text = this.source.text(row);
          return words.every((word) => holds(text, word));
        })
      : this.order;
    this.most = SHOWN_ROWS;
    this.draw();
  }

  draw() {
    this.body.replaceChildren(...this.shown.slice(0, this.most).map((row) => this.source.node(row)));
    const all = this.source.length;
    this.count.textContent = this.shown.length === all ? `${all} rows` : `${this.shown.length} of ${all} rows`;
    const left = this.shown.length - this.most;
    this.more.hidden = left <= 0;
    this.more.textContent = `Show more: ${left} rows are not shown`;
  }

  async copy(button) {
    const line = (cells) => cells.map((cell) => cell.replace(/[\t\r\n]+/g, " ")).join("\t");
    const heads = line(this.heads.map((head) => head.textContent));
    const text = [heads, ...this.shown.map((row) => line(this.source.cells(row)))].join("\n") + "\n";
    let done = false;
    try {
      await navigator.clipboard.writeText(text);
      done = true;
    } catch {
      const area = element("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
    }
    const before = "Copy as TSV";
    button.textContent = done ? `Copied ${this.shown.length} rows` : "This browser does not let it copy";
    setTimeout(() => { button.textContent = before; }, 2500);
    button.focus();
  }
}
