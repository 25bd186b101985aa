"use strict";
// Before and after as a volcano plot: how far each place moved, and how surely. Places are in
// columns, those that moved first; the table below has them all.

const SIDE = { left: 52, right: 26, top: 12, bottom: 40 };

// A p that is smaller is drawn and printed as this one.
const LEAST_P = 1e-15;

const WIDEST = 900;

// How near the pointer has to be, in pixels.
const NEAR = 14;

class Changes {
  constructor(changes) {
    this.changes = changes;
    this.length = changes.rows[0].length;
  }
  values(row) {
    const { conditions, places, words, rows } = this.changes;
    const p = rows[3][row];
    return [words[rows[6][row]] === "unknown" ? "cannot tell" : words[rows[6][row]], places[rows[1][row]],
      conditions[rows[0][row]], rows[4][row], rows[5][row], rows[2][row] * 100, p === null ? NaN : 10 ** -p];
  }
  cells(row) {
    return this.values(row).map((value, column) => {
      if (typeof value !== "number") return value;
      if (Number.isNaN(value)) return "-";
      if (column === 5) return `${value > 0 ? "+" : ""}${value.toFixed(2)}`;
      if (column === 6) return value <= LEAST_P ? `<= ${LEAST_P}` : value.toPrecision(2);
      return String(Number(value.toPrecision(5)));
    });
  }
  text(row) { return this.cells(row).join(" ").toLowerCase(); }
  key(row, column) { return this.values(row)[column]; }
  node(row) {
    const made = element("tr", undefined, this.changes.rows[6][row] === 0 ? "worse" : "");
    this.cells(row).forEach((cell, column) =>
      made.append(element("td", cell, column > 2 ? "n" : cell.length <= 24 && !cell.includes(" ") ? "word" : "")));
    return made;
  }
}

class Volcano {
  constructor(box, changes, drill) {
    this.box = box;
    this.changes = changes;
    this.drill = drill;
    this.table = new Changes(changes);
    const [, , change, p] = changes.rows;
    // What more than doubled stands at the edge.
    const far = change.reduce((most, one) => Math.max(most, Math.abs(one)), 0);
    this.wide = Math.max(Math.min(far * 1.08, 1), Math.max(...changes.margins) * 2.5);
    this.high = Math.max(p.reduce((most, one) => Math.max(most, one ?? 0), 0) * 1.05, 3);
    this.order = change.map((_, row) => row).sort((a, b) => change[a] - change[b]);
    this.build();
    this.draw();
    new ResizeObserver(() => { if (Math.min(box.clientWidth, WIDEST) !== this.width) this.draw(); }).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  build() {
    const counts = this.changes.words.map((_, word) => this.changes.rows[6].filter((one) => one === word).length);
    const signs = ["✕ worse", "▲ better", "○ cannot tell", "• same"];
    this.legend = element("div", undefined, "legend");
    signs.forEach((sign, word) => this.legend.append(element("span", `${sign}: ${counts[word]}`)));
    this.legend.append(element("span", "dashed: the smallest change that matters"));
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label",
      `Volcano plot of ${this.table.length} places: ${counts[0]} worse, ${counts[1]} better, ${counts[3]} the same, ` +
      `${counts[2]} cannot tell. Arrow keys move by change, Enter lists the place.`);
    this.read = element("div", "Point at a place, or use the arrow keys; click or Enter lists it below.", "read");
    this.read.setAttribute("role", "status");
    this.box.append(this.legend, this.canvas, this.read);
    this.canvas.addEventListener("pointermove", (event) => this.say(this.nearest(event)));
    this.canvas.addEventListener("pointerleave", () => this.say(this.cursor));
    this.canvas.addEventListener("click", (event) => this.enter(this.nearest(event)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => { this.cursor ??= 0; this.say(this.cursor); this.draw(); });
    this.canvas.addEventListener("blur", () => this.draw());
  }

  at(row) {
    const change = Math.min(Math.max(this.changes.rows[2][row], -this.wide), this.wide);
    const p = this.changes.rows[3][row] ?? 0;
    return [this.x(change), this.y(p)];
  }
  x(change) { return SIDE.left + ((change / this.wide + 1) / 2) * (this.width - SIDE.left - SIDE.right); }
  y(p) { return this.height - SIDE.bottom - (p / this.high) * (this.height - SIDE.top - SIDE.bottom); }

  draw() {
    this.width = Math.min(this.box.clientWidth, WIDEST);
    if (!this.width) return;
    this.height = Math.min(Math.max(this.width * 0.55, 240), 420);
    const style = getComputedStyle(document.documentElement);
    const tone = (name) => style.getPropertyValue(name).trim();
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    this.axes(pen, tone);
    const tones = [tone("--reject"), tone("--accept"), tone("--open"), tone("--soft")];
    // Those that moved are drawn last, over the others.
    for (let row = this.table.length - 1; row >= 0; row--) this.mark(pen, row, tones);
    if (this.cursor !== undefined && document.activeElement === this.canvas) {
      const [x, y] = this.at(this.cursor);
      pen.strokeStyle = tone("--ink");
      pen.lineWidth = 2;
      pen.strokeRect(x - 9, y - 9, 18, 18);
    }
  }

  axes(pen, tone) {
    pen.font = "11px system-ui, sans-serif";
    pen.lineWidth = 1;
    const bottom = this.height - SIDE.bottom, right = this.width - SIDE.right;
    const line = (x1, y1, x2, y2, stroke, dash) => {
      pen.strokeStyle = stroke;
      pen.setLineDash(dash);
      pen.beginPath();
      pen.moveTo(x1, y1);
      pen.lineTo(x2, y2);
      pen.stroke();
      pen.setLineDash([]);
    };
    pen.fillStyle = tone("--ink");
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const change of steps(this.wide, Math.max(Math.floor(this.width / 160), 2)))
      for (const side of change ? [-change, change] : [0]) {
        line(this.x(side), SIDE.top, this.x(side), bottom, tone("--line"), []);
        pen.fillText(`${side > 0 ? "+" : ""}${Number((side * 100).toPrecision(3))} %`, this.x(side), bottom + 5);
      }
    pen.fillText("change, beyond that of all places of its condition", (SIDE.left + right) / 2, bottom + 22);
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const p of steps(this.high, 5)) {
      line(SIDE.left, this.y(p), right, this.y(p), tone("--line"), []);
      pen.fillText(String(Number(p.toPrecision(3))), SIDE.left - 6, this.y(p));
    }
    pen.save();
    pen.translate(13, (SIDE.top + bottom) / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillText("-log10 p", 0, 0);
    pen.restore();
    for (const margin of this.changes.margins)
      for (const at of [this.x(-margin), this.x(margin)])
        line(at, SIDE.top, at, bottom, tone("--ink"), [6, 4]);
  }

  mark(pen, row, tones) {
    const [x, y] = this.at(row), word = this.changes.rows[6][row];
    pen.strokeStyle = pen.fillStyle = tones[word];
    pen.lineWidth = 2;
    pen.beginPath();
    if (word === 0) {
      pen.moveTo(x - 4.5, y - 4.5); pen.lineTo(x + 4.5, y + 4.5);
      pen.moveTo(x - 4.5, y + 4.5); pen.lineTo(x + 4.5, y - 4.5);
      pen.stroke();
    } else if (word === 1) {
      pen.moveTo(x, y - 5.5); pen.lineTo(x + 5, y + 4); pen.lineTo(x - 5, y + 4);
      pen.fill();
    } else {
      pen.lineWidth = 1.2;
      pen.arc(x, y, word === 2 ? 3.5 : 2.2, 0, 7);
      if (word === 2) pen.stroke(); else pen.fill();
    }
  }

  nearest(event) {
    const box = this.canvas.getBoundingClientRect();
    let found, least = NEAR * NEAR;
    for (let row = 0; row < this.table.length; row++) {
      const [x, y] = this.at(row);
      const far = (x - event.clientX + box.left) ** 2 + (y - event.clientY + box.top) ** 2;
      if (far < least) [found, least] = [row, far];
    }
    return found;
  }

  say(row) {
    if (row === undefined) return;
    const [word, place, condition, before, after, change, p] = this.table.cells(row);
    this.read.textContent = `${place}: ${word}, ${before} to ${after}, ${change} %, p ${p}; ${condition}`;
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.enter(this.cursor);
    } else if (step) {
      event.preventDefault();
      const here = this.order.indexOf(this.cursor);
      this.cursor = this.order[Math.min(Math.max(here + step, 0), this.order.length - 1)];
      this.say(this.cursor);
      this.draw();
    }
  }

  enter(row) {
    if (row !== undefined) this.drill(this.table.values(row)[1]);
  }
}

// Round numbers from 0 on, about so many.
function steps(most, many) {
  const raw = most / many, size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((of) => of * size).find((one) => one >= raw);
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
}
