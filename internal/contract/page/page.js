"use strict";
// Shows openapi.json and asyncapi.json. What comes from them is written as text,
// never as HTML.
const make = (tag, attributes, ...children) => {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
};
const code = (text) => make("code", {}, text);

// prose writes `words` as code, lines that begin with "* " as a list, and the rest as it is.
const prose = (text, tag = "p") => {
  const parts = (text || "").trim().split(/\n*((?:^\* .*\n?)+)\n*/m);
  const e = make(parts.length > 1 ? "div" : tag, { class: "text" });
  parts.forEach((part, i) => e.append(...(i % 2 ? [make("ul", {}, ...part.trim().split("\n").map((line) => make("li", {}, ...words(line.slice(2)))))] : words(part))));
  return e;
};
const words = (text) => text.split("`").map((part, i) => i % 2 ? code(part) : part);

const find = (doc, ref) => ref.slice(2).split("/").reduce((v, name) => v?.[name.replaceAll("~1", "/").replaceAll("~0", "~")], doc);
const resolve = (doc, v) => { while (v?.$ref) v = find(doc, v.$ref); return v || {}; };
const nameOf = (s) => s?.$ref?.split("/").pop();

// kindOf says a schema in a few words.
const kindOf = (doc, schema) => {
  const s = schema || {};
  if (s.$ref) return nameOf(s);
  const alternatives = s.oneOf || s.anyOf || s.allOf;
  if (alternatives) return alternatives.map((a) => kindOf(doc, a)).join(" or ") + (s.nullable ? " or null" : "");
  if (s.type === "array") return "array of " + kindOf(doc, s.items);
  const words = [s.type || "any", s.format && `(${s.format})`, s.nullable && "or null"];
  if (s.type === "object" && typeof s.additionalProperties === "object") words.push("of " + kindOf(doc, s.additionalProperties));
  return words.filter(Boolean).join(" ");
};
const limits = (s) => [
  s.enum && "one of " + s.enum.map((v) => JSON.stringify(v)).join(", "), s.default !== undefined && "default " + JSON.stringify(s.default),
  s.minimum !== undefined && "from " + s.minimum, s.maximum !== undefined && "to " + s.maximum, s.maxLength && "at most " + s.maxLength + " long",
].filter(Boolean).join("; ");

// nested are the schemas below one that have members of their own.
const nested = (doc, schema) => {
  const s = schema || {};
  if (s.$ref) return [s];
  const inner = [...(s.oneOf || s.anyOf || s.allOf || []), s.items, typeof s.additionalProperties === "object" ? s.additionalProperties : null].filter(Boolean);
  return s.properties ? [s] : inner.flatMap((i) => nested(doc, i));
};

// members lists what an object has. Schemas below it are opened by hand, as they
// may refer to themselves.
const members = (doc, schema) => {
  const s = resolve(doc, schema);
  const box = make("div");
  if (s.description) box.append(prose(s.description));
  if (s.enum) box.append(make("div", { class: "dim" }, limits(s)));
  for (const below of s.properties ? [] : nested(doc, s)) box.append(opener(doc, below));
  const required = new Set(s.required || []);
  const names = Object.keys(s.properties || {}).sort((a, b) => required.has(b) - required.has(a));
  if (names.length) box.append(make("ul", { class: "members" }, ...names.map((name) => member(doc, name, s.properties[name], required.has(name)))));
  if (s.additionalProperties === true) box.append(make("div", { class: "dim" }, "and other members"));
  return box;
};
const member = (doc, name, schema, required) => {
  const li = make("li", {}, code(name), " ", make("span", { class: "dim" }, kindOf(doc, schema) + (required ? ", required" : "")));
  const about = schema.description || resolve(doc, schema).description;
  const bounds = limits(resolve(doc, schema));
  if (about) li.append(make("div", {}, prose(about, "span")));
  if (bounds) li.append(make("div", { class: "dim" }, bounds));
  for (const below of nested(doc, schema)) if (resolve(doc, below).properties) li.append(opener(doc, below));
  return li;
};
const opener = (doc, schema) => {
  const d = make("details", { class: "schema" }, make("summary", {}, nameOf(schema) || "members"));
  d.addEventListener("toggle", () => { if (d.open && d.children.length === 1) d.append(members(doc, schema)); });
  return d;
};

const table = (heads, rows) => make("div", { class: "table", tabindex: 0 }, make("table", { class: "cards" },
  make("thead", {}, make("tr", {}, ...heads.map((h) => make("th", {}, h)))),
  make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((c, i) => make("td", heads[i] && i ? { "data-label": heads[i] } : {}, c)))))));

const pretty = (v) => typeof v === "string" ? v : JSON.stringify(v, null, 2);
const examplesOf = (media) => media.example !== undefined ? { "": media.example } : Object.fromEntries(Object.entries(media.examples || {}).map(([k, v]) => [k, v.value]));

// content shows the forms of a body.
const content = (doc, forms) => Object.entries(forms || {}).flatMap(([type, media]) => {
  const out = [make("div", {}, code(type), " ", make("span", { class: "dim" }, kindOf(doc, media.schema)))];
  for (const below of nested(doc, media.schema)) out.push(opener(doc, below));
  for (const [name, schema] of Object.entries(media["x-genbus-events"] || {})) out.push(make("div", {}, "event ", code(name), " ", ...nested(doc, schema).map((s) => opener(doc, s))));
  for (const [name, value] of Object.entries(examplesOf(media))) out.push(make("h3", {}, name ? "Example: " + name : "Example"), make("pre", { tabindex: 0 }, pretty(value)));
  return out;
});

const quote = (s) => "'" + s.replaceAll("'", "'\\''") + "'";

// curl is a line that makes the call, with the examples of the document.
const curl = (doc, path, method, op, name) => {
  const given = (op.parameters || []).map((p) => resolve(doc, p));
  const query = given.filter((p) => p.in === "query" && p.required).map((p) => p.name + "=" + encodeURIComponent(name && p.schema.enum?.includes(name) ? name : p.example ?? p.schema.enum?.[0] ?? ""));
  const where = path.replace(/\{(\w+)\}/g, (_, n) => given.find((p) => p.in === "path" && p.name === n)?.example ?? n);
  const base = doc.servers?.[0]?.url?.startsWith("http") ? doc.servers[0].url : new URL(".", location.href).href.replace(/\/$/, "");
  const line = ["curl"];
  const streams = Object.values(op.responses || {}).some((r) => resolve(doc, r).content?.["text/event-stream"]) && method === "get";
  if (streams) line.push("-N");
  if (method === "head") line.push("-I");
  if (method === "delete") line.push("-X DELETE");
  if (!op.security || op.security.length) line.push('-H "Authorization: Bearer $GENBUS_KEY"');
  const media = resolve(doc, op.requestBody).content?.["application/json"];
  if (method === "post") line.push("--json " + quote(JSON.stringify((media && examplesOf(media)[name || ""]) ?? {})));
  if (method === "get" && Object.values(op.responses || {}).some((r) => resolve(doc, r).content?.["*/*"])) line.push("-o video.mp4");
  line.push(quote(base + where + (query.length ? "?" + query.join("&") : "")));
  return line.join(" ");
};
const copied = (text) => {
  const b = make("button", { type: "button", class: "button" }, "Copy");
  b.addEventListener("click", () => navigator.clipboard?.writeText(text).then(() => { b.textContent = "Copied"; }));
  return make("div", { class: "copy" }, make("pre", { tabindex: 0 }, text), b);
};

const security = (doc, op) => {
  const wanted = op.security || doc.security || [];
  return wanted.length ? "Key: " + wanted.map((s) => Object.keys(s).join(" and ")).join(", or ") : "Needs no key.";
};

const operation = (doc, path, method, op) => {
  const body = make("div", { class: "body" });
  const fill = () => {
    if (body.children.length) return;
    if (op.description) body.append(prose(op.description));
    body.append(make("p", { class: "dim" }, security(doc, op) + " · ", code(op.operationId)));
    body.append(make("h3", {}, "Try"));
    const bodies = Object.keys(examplesOf(resolve(doc, op.requestBody).content?.["application/json"] || {}));
    for (const name of bodies.length ? bodies : [""]) body.append(copied(curl(doc, path, method, op, name)));
    if (op.parameters) {
      body.append(make("h3", {}, "Parameters"), table(["name", "in", "form", ""], op.parameters.map((p) => resolve(doc, p)).map((p) => [
        code(p.name), p.in + (p.required ? ", required" : ""), [kindOf(doc, p.schema), limits(resolve(doc, p.schema))].filter(Boolean).join("; "), prose(p.description, "span")])));
    }
    if (op.requestBody) body.append(make("h3", {}, "Body"), ...content(doc, resolve(doc, op.requestBody).content));
    body.append(make("h3", {}, "Answers"));
    for (const [status, answer] of Object.entries(op.responses || {})) {
      const r = resolve(doc, answer);
      const box = make("details", { class: "schema" }, make("summary", {}, code(status), " ", prose(r.description, "span")));
      const rows = Object.entries(r.headers || {}).map(([name, h]) => [code(name), prose(resolve(doc, h).description, "span")]);
      if (rows.length) box.append(table(["header", ""], rows));
      box.append(...content(doc, r.content));
      box.append(...codes(doc, r));
      if (status[0] === "2") box.open = true;
      body.append(box);
    }
  };
  return item("http/" + op.operationId, method, path, op.summary, body, fill, op.description);
};

// codes explains the errors of an answer.
const codes = (doc, response) => {
  const listed = resolve(doc, response.headers?.["Genbus-Error-Code"]).schema?.enum || [];
  const rows = (doc["x-genbus-errors"] || []).filter((e) => listed.includes(e.code));
  return rows.length ? [table(["code", "retry", "what happened", "what to do"], rows.map((e) => [code(e.code), e.retry ? "yes" : "no", prose(e.means, "span"), prose(e.do, "span")]))] : [];
};

// item is one operation or channel; the address of the page names the one that was
// opened last.
const item = (id, word, title, summary, body, fill, words) => {
  const d = make("details", { class: "item", id }, make("summary", {}, make("span", { class: "method " + word.split(" ")[0] }, word), code(title), make("span", { class: "dim" }, summary || "")), body);
  d.dataset.words = [id, word, title, summary, words].join(" ").toLowerCase();
  d.addEventListener("toggle", () => {
    if (!d.open) return;
    fill();
    history.replaceState(null, "", "#" + id);
  });
  return d;
};

const order = ["post", "get", "head", "delete"];
const http = (doc) => {
  const out = [prose(doc.info.description, "div")];
  for (const tag of doc.tags) {
    const items = Object.entries(doc.paths).flatMap(([path, all]) => order.filter((m) => all[m]?.tags?.includes(tag.name)).map((m) => operation(doc, path, m, all[m])));
    out.push(make("section", {}, make("h2", {}, tag.name), prose(tag.description, "div"), ...items));
  }
  out.push(make("section", {}, make("h2", {}, "Errors"), table(["code", "HTTP", "gRPC", "retry", "what happened", "what to do"],
    doc["x-genbus-errors"].map((e) => [code(e.code), String(e.status), e.grpc, e.retry ? "yes" : "no", prose(e.means, "span"), prose(e.do, "span")]))));
  return out;
};

const message = (doc, given) => {
  const m = resolve(doc, given);
  const box = make("details", { class: "schema" }, make("summary", {}, m.name + " ", make("span", { class: "dim" }, m.contentType)));
  box.addEventListener("toggle", () => {
    if (!box.open || box.children.length > 1) return;
    box.append(prose(m.summary), make("h3", {}, "Headers"), members(doc, m.headers), make("h3", {}, "Payload"), ...nested(doc, m.payload).map((s) => opener(doc, s)));
  });
  return box;
};
const channel = (doc, id, c) => {
  const actions = Object.values(doc.operations).filter((o) => nameOf(o.channel) === id);
  const body = make("div", { class: "body" });
  const fill = () => {
    if (body.children.length) return;
    body.append(prose(c.description));
    if (c["x-genbus-stream"]) body.append(make("p", {}, "Stream ", code(c["x-genbus-stream"])));
    const given = Object.entries(c.parameters || {});
    if (given.length) body.append(make("h3", {}, "Tokens"), table(["name", ""], given.map(([name, p]) => [code(name), p.description + (p.enum ? " " + p.enum.join(", ") : "")])));
    body.append(make("h3", {}, "Messages"), ...Object.values(c.messages).map((m) => message(doc, m)));
    for (const o of actions) if (o.reply) body.append(make("h3", {}, "Reply"), ...o.reply.messages.map((m) => message(doc, m)));
  };
  return item("nats/" + id, actions.map((o) => o.action === "send" ? "from genbus" : "to genbus").join(", "), c.address, c.title, body, fill, c.description + " " + (c["x-genbus-stream"] || ""));
};
const nats = (doc) => [
  prose(doc.info.description, "div"),
  make("section", {}, make("h2", {}, "Subjects"), ...Object.entries(doc.channels).filter(([, c]) => c.address).sort(([, a], [, b]) => a.address < b.address ? -1 : 1).map(([id, c]) => channel(doc, id, c))),
  make("section", {}, make("h2", {}, "Streams"), table(["name", ""], doc["x-genbus-streams"].map((s) => [code(s.name), s.description]))),
];

const main = document.getElementById("documents");
const filter = document.getElementById("filter");
const apply = () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const d of main.querySelectorAll("details.item")) d.hidden = !words.every((w) => d.dataset.words.includes(w));
};
const read = async (name) => {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return answer.json();
};
const show = async () => {
  try {
    const wanted = location.hash.startsWith("#nats") ? "nats" : "http";
    main.replaceChildren(...(wanted === "nats" ? nats(await read("asyncapi.json")) : http(await read("openapi.json"))));
    for (const a of document.querySelectorAll("nav a")) a.hash === "#" + wanted ? a.setAttribute("aria-current", "page") : a.removeAttribute("aria-current");
    apply();
    const linked = document.getElementById(location.hash.slice(1));
    if (linked) {
      linked.open = true;
      linked.scrollIntoView();
    }
  } catch (err) {
    main.replaceChildren(make("p", {}, "The documents cannot be read: " + err.message));
  }
};
filter.addEventListener("input", apply);
window.addEventListener("hashchange", show);
show();
