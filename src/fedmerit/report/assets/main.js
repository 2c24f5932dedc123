// Put the page together, and let people choose.
const get = (id) => document.getElementById(id);

function select(indexes) {
  state.selected = indexes;
  keepState(); fillChips(); fillRanking(); drawOnSight(["course-chart", drawCourses]);
}
const toggle = (index) =>
  select(state.selected.includes(index) ? state.selected.filter((other) => other !== index) : [...state.selected, index]);

const MOST_MATCHES = 12;
function fillChips() {
  const chip = (index, verb) => {
    const item = element("li"), name = visible(title(clients[index])), button = element("button", name, { type: "button", "aria-label": `${verb} ${name}`, title: name });
    button.addEventListener("click", () => { toggle(index); get("search").focus(); });
    item.append(button);
    return item;
  };
  get("chosen").replaceChildren(...state.selected.map((index, order) => {
    const item = chip(index, "remove");
    item.firstChild.style.setProperty("--mark", `var(--c${order % 8})`);
    return item;
  }));
  const words = state.search.toLowerCase();
  const hits = words ? clients.map((_, index) => index).filter((index) => found(clients[index], words)) : [];
  get("matches").replaceChildren(...hits.slice(0, MOST_MATCHES).filter((index) => !state.selected.includes(index)).map((index) => chip(index, "select")));
  get("found").textContent = words ? `${hits.length} of ${clients.length} clients found${hits.length > MOST_MATCHES ? `, the first ${MOST_MATCHES} shown` : ""}` : `${clients.length} clients, ${state.selected.length} selected`;
}

function fillTop() {
  const first = run.rounds[0], last = run.rounds.at(-1);
  get("title").textContent = run.title;
  get("subtitle").textContent = (run.rounds.length ? `rounds ${first} to ${last}, ` : "no rounds yet, ") + (run.live ? `read ${new Date().toISOString().slice(0, 16).replace("T", " ")} UTC` : `written ${run.made}`);
  get("footer").textContent = `${run.versions["this page"]}. ` + (run.live ? "This page only reads: nothing here changes a ledger." : "This file is complete: it loads nothing and sends nothing.");
  const metric = run.metrics.find(([name, values]) => name !== "loss" && values.some(present)), often = clients.filter((client) => standing(client) === 2).length;
  const paid = clients.filter((client) => client.paid !== null), total = sum(paid.map((client) => client.paid));
  get("tiles").replaceChildren(
    tile("rounds", String(run.rounds.length)),
    tile("clients", String(clients.length)),
    tile("flagged at least once", String(byFlags.length), often ? `${often} of them mostly` : ""),
    tile("paid", paid.length ? amount(total) : "–", paid.length ? `to ${paid.filter((client) => client.paid).length} clients` : "no payments recorded"),
    tile("rejected replies", String(run.rejected.length)),
    ...(metric ? [tile(metric[0], digits(metric[1].at(-1), 3), `highest ${digits(most(metric[1].filter(present)), 3)}`)] : []),
  );
  const chain = run.chain, facts = [];
  if (chain) facts.push(["record", chain.problem ? `does not verify: ${chain.problem}` : "verified: all stored content is what was hashed"], ["head", chain.head || "none"], ["signed with", chain.public_key || "not signed"]);
  else facts.push(["record", "not from a ledger: nothing proves that it was not changed"]);
  get("alarm").hidden = !chain || !chain.problem;
  get("alarm").textContent = chain && chain.problem ? `This record was changed after it was written. ${chain.problem}` : "";
  get("chain").replaceChildren(...facts.flatMap(([key, value]) => [element("dt", key), element("dd", value)]));
}

function listen() {
  for (const section of document.querySelectorAll("#run-view section")) {
    const item = element("li");
    const name = section.id[0].toUpperCase() + section.id.slice(1); // shorter than its title
    item.append(element("a", name, { href: `#${section.id}`, title: section.querySelector("h2").textContent }));
    get("nav").append(item);
  }
  get("measure").addEventListener("change", (event) => { state.measure = event.target.value; keepState(); drawCourses(); });
  get("search").addEventListener("input", (event) => { state.search = event.target.value.trim(); keepState(); fillChips(); fillRanking(); });
  get("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") get("matches").querySelector("button")?.click();
    if (event.key === "Escape") { event.target.value = ""; event.target.dispatchEvent(new Event("input")); }
  });
  for (const button of document.querySelectorAll("[data-pick]")) button.addEventListener("click", () => select(picks[button.dataset.pick]()));
  get("map-round").addEventListener("input", drawMap);
  addEventListener("hashchange", () => { showView(); goTo(); });
  if (run.refresh) {
    get("refresh-box").hidden = false;
    get("refresh-text").textContent = `refresh every ${run.refresh} s`;
    setInterval(() => { if (get("refresh").checked && document.activeElement !== get("search")) location.reload(); }, run.refresh * 1000);
  }
}

// All that depends on the run: once in a file, at every change in a live page.
function showRun(data) {
  const slider = get("map-round"), atEnd = !run || slider.value === slider.max;
  setRun(data);
  slider.max = String(Math.max(0, run.agreement.length - 1));
  if (atEnd) slider.value = slider.max;
  get("measure").replaceChildren(...measures.map(([key, words]) => element("option", words, { value: key })));
  get("measure").value = state.measure;
  if (document.activeElement !== get("search")) get("search").value = state.search;
  fillTop(); fillChips(); fillRanking(); fillGroups(); fillFlags(); fillSettings();
  showView();
}

// Where the address points to, once all charts on the way have their heights.
function goTo() {
  if (chosenClient()) { scrollTo(0, 0); return; }
  drawAll();
  get(location.hash.slice(1) || "overview")?.scrollIntoView();
}

function drawRun() {
  charts.forEach(drawOnSight);
}

showTheme(currentTheme());
showRun(JSON.parse(get("data").textContent));
listen();
if (location.hash) goTo();
themeListeners.push(showView);
let width = innerWidth;
addEventListener("resize", () => { if (width !== innerWidth) showView(); width = innerWidth; });
if (run.live) {
  get("all-runs").hidden = false;
  follow([run.live], showRun);
}
root.dataset.ready = "true";
