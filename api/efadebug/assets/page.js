"use strict";
// Draws the JSON of ?json. Text from the process goes into textContent only, since
// error messages may hold what a peer wrote.

const period = 2000; // ms between two refreshes
const oldAfter = 1e9; // ns without progress from which an operation is marked
const at = (id) => document.getElementById(id);

const el = (name, props, ...children) => {
  const e = Object.assign(document.createElement(name), props);
  e.append(...children);
  return e;
};

const time = (ns) => {
  if (ns < 1e3) return `${ns} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toFixed(1)} us`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(1)} ms`;
  if (ns < 60e9) return `${(ns / 1e9).toFixed(1)} s`;
  return `${Math.floor(ns / 60e9)} min ${Math.floor((ns / 1e9) % 60)} s`;
};

const bytes = (n) => {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (n < 1024) return `${Math.round(n * 10) / 10} ${unit}`;
    n /= 1024;
  }
  return `${Math.round(n * 10) / 10} GiB`;
};

// The columns: heading, what to show, class of the cell.
const operationColumns = [
  ["operation", (o) => o.kind],
  ["waits for", (o) => o.waits, "words"],
  ["still for", (o) => time(o.still), "number"],
  ["age", (o) => time(o.age), "number"],
  ["peer", (o) => (o.peer_name ? `${o.peer_name}, ${o.peer}` : o.peer || "anybody")],
  ["protocol", (o) => o.protocol || ""],
  ["state", (o) => o.state || ""],
  ["done", (o) => bytes(o.done), "number"],
  ["of", (o) => bytes(o.bytes), "number"],
  ["msg_id", (o) => o.msg_id ?? "", "number"],
  ["tag", (o) => (o.tag === undefined ? "" : `0x${BigInt(o.tag).toString(16)}`), "number"], // as spans have it
];

const peerColumns = [
  ["peer", (p) => p.handle ?? "", "number"], // the number in errors and spans
  ["name", (p) => p.name || ""],
  ["address", (p) => p.address],
  ["state", (p) => p.state + (p.backing_off ? ` for ${time(p.backing_off)}` : "")],
  ["device", (p) => p.device],
  ["handshake", (p) => p.handshake],
  ["silent for", (p) => time(p.silent), "number"],
  ["operations", (p) => p.operations, "number"],
  ["in line", (p) => p.in_line, "number"],
  ["resends", (p) => p.resends, "number"],
  ["next msg_id", (p) => p.next_msg_id, "number"],
  ["expected", (p) => p.expected_msg_id, "number"],
  ["out of order", (p) => p.out_of_order, "number"],
  ["held", (p) => bytes(p.held_bytes), "number"],
  ["error", (p) => p.error || "", "words"],
];

const table = (columns, rows, mark) => {
  const wanted = at("filter").value.toLowerCase();
  const body = el("tbody");
  let shown = 0;
  for (const row of rows) {
    const cells = columns.map(([, show, kind]) => el("td", { className: kind || "", textContent: show(row) }));
    if (wanted && !cells.some((c) => c.textContent.toLowerCase().includes(wanted))) continue;
    body.append(el("tr", { className: mark(row) }, ...cells));
    shown++;
  }
  const head = el("tr", {}, ...columns.map(([name, , kind]) => el("th", { className: kind || "", textContent: name })));
  return [el("table", {}, el("thead", {}, head), body), shown];
};

const facts = (s) => {
  const q = s.queues;
  return [
    `${s.state}, ${s.progress}`,
    `send queue ${q.send_used} of ${q.send_depth}`,
    `${q.posted_receives} receives posted`,
    `${q.unexpected} unexpected messages, ${bytes(q.held_bytes)} held`,
    q.recv_throttled ? "memory is used up: senders meet RNR" : "",
    `RNR ${s.counters["Queue.RNR"] || 0}, back-offs ${s.counters.Backoffs || 0}, resent ${s.counters.Resent || 0}`,
  ].filter(Boolean).join("; ");
};

// isStuck reports whether an operation should have got on. A receive from anybody waits as long
// as nobody sends.
const isStuck = (o) => o.still >= oldAfter && (o.kind !== "receive" || Boolean(o.peer));

const section = (entry) => {
  const out = el("section", {}, el("h2", { textContent: entry.name }));
  if (!entry.snapshot) {
    out.append(el("p", { className: "error", textContent: entry.error }));
    return out;
  }
  const s = entry.snapshot;
  out.append(el("p", { className: "facts" }, el("code", { textContent: s.address })),
    el("p", { className: "facts", textContent: facts(s) }));
  const stuck = at("stuck").checked;
  const operations = (s.operations || []).filter((o) => !stuck || isStuck(o))
    .sort((a, b) => isStuck(b) - isStuck(a) || (isStuck(a) ? b.still - a.still : 0));
  const [ops, shown] = table(operationColumns, operations, (o) => (isStuck(o) ? "old" : ""));
  const more = s.omitted ? `, ${s.omitted} younger ones are not listed` : "";
  out.append(el("h3", { textContent: `${shown} operations${more}` }), ops);
  const [peers, there] = table(peerColumns, s.peers || [], (p) => (p.error ? "failed" : ""));
  out.append(el("h3", { textContent: `${there} peers` }), peers);
  return out;
};

const rankName = (job, i) => `rank ${i}${job.ranks[i].name && job.ranks[i].name !== `rank ${i}` ? ` (${job.ranks[i].name})` : ""}`;
const plural = (list) => (list.length === 1 ? `rank ${list[0]} waits` : `ranks ${list.join(", ")} wait`);

const rankColumns = [
  ["rank", (r) => r.rank, "number"],
  ["name", (r) => r.name],
  ["waits for", (r) => (r.waits || []).map((i) => `rank ${i}`).join(", ")],
  ["operations", (r) => (r.entries || []).reduce((n, e) => n + (e.snapshot?.operations?.length || 0), 0), "number"],
  ["error", (r) => r.error || "", "words"],
];

const drawJob = (job) => {
  const out = [el("h2", { textContent: `Job of ${job.ranks.length} ranks` })];
  for (const c of job.culprits || []) {
    out.push(el("p", { className: "error", textContent: `${plural(c.waiting)} for ${rankName(job, c.rank)}` +
      (c.silent ? ", which does not answer" : c.waiting.includes(c.rank) ? "" : ", which waits for no other") }));
  }
  out.push(table(rankColumns, job.ranks, (r) => (r.error ? "failed" : ""))[0]);
  at("job").replaceChildren(...out);
};

let ofJob = true; // until the process says that there is none
const refreshJob = async () => {
  const answer = await fetch("?job", { cache: "no-store" });
  ofJob = answer.status !== 404;
  if (answer.ok) drawJob(await answer.json());
};

let last = [];
const draw = () => at("endpoints").replaceChildren(...last.map(section));

const refresh = async () => {
  try {
    if (at("run").checked) {
      const answer = await fetch("?json", { cache: "no-store" });
      if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
      last = await answer.json();
      draw();
      if (ofJob) await refreshJob();
      at("status").textContent = `as of ${new Date().toLocaleTimeString()}`;
    }
  } catch (e) {
    at("status").textContent = `no answer: ${e.message}`;
  }
  setTimeout(refresh, period);
};

at("filter").addEventListener("input", draw);
at("stuck").addEventListener("change", draw);
refresh();
