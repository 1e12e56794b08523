"use strict";
// Conveniences only: details on hover, a graph followed through all lanes, zoom. The page says everything without them.
(() => {
  const timeline = document.querySelector(".timeline");
  if (!timeline) return;
  const scroll = timeline.querySelector(".scroll"), wide = timeline.querySelector(".wide");
  const lanes = timeline.querySelector(".lanes"), flows = timeline.querySelector(".flows");
  const tip = document.getElementById("tip");
  const WIDTH = 10000, NS = "http://www.w3.org/2000/svg";
  let pinned = null, zoom = 1;

  // The browser's own tooltips would cover ours.
  timeline.querySelectorAll("title").forEach((title) => {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  });

  const showTip = (event) => {
    const owner = event.target.closest("[data-tip]");
    tip.hidden = !owner;
    if (!owner) return;
    tip.textContent = owner.dataset.tip;
    const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18;
    tip.style.left = Math.max(x, 8) + "px";
    tip.style.top = (below + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 12 : below) + "px";
  };

  const drawFlows = (graph) => {
    flows.replaceChildren();
    if (graph === null) return;
    const box = lanes.getBoundingClientRect();
    const ends = [...lanes.querySelectorAll(`g[data-k="${graph}"][data-e]`)].map((group) => {
      const lane = group.ownerSVGElement.getBoundingClientRect();
      return {
        x: Number(group.dataset.e) / WIDTH * box.width,
        y: lane.top + lane.height / 2 - box.top,
        made: group.querySelector(".compile") !== null,
        waited: group.querySelector(".led, .joined") !== null,
      };
    });
    const source = ends.filter((end) => end.made).pop();
    if (!source) return;
    for (const end of ends.filter((end) => end.waited)) {
      const path = document.createElementNS(NS, "path");
      const middle = (source.y + end.y) / 2;
      path.setAttribute("d", `M${source.x} ${source.y}C${source.x} ${middle} ${end.x} ${middle} ${end.x} ${end.y}`);
      flows.append(path);
    }
  };

  const pick = (graph) => {
    timeline.classList.toggle("picking", graph !== null);
    document.querySelectorAll(".picked").forEach((each) => each.classList.remove("picked"));
    if (graph !== null) document.querySelectorAll(`g[data-k="${graph}"], tr[data-k="${graph}"]`).forEach((each) => each.classList.add("picked"));
    drawFlows(graph);
  };

  const graphOf = (target) => target.closest("g[data-k]")?.dataset.k ?? null;
  const pin = (graph) => { pinned = graph === pinned ? null : graph; pick(pinned); };

  timeline.addEventListener("pointermove", (event) => {
    showTip(event);
    if (pinned === null) pick(graphOf(event.target));
  });
  timeline.addEventListener("pointerleave", () => { tip.hidden = true; if (pinned === null) pick(null); });
  lanes.addEventListener("click", (event) => pin(graphOf(event.target)));
  document.querySelectorAll("button.pick").forEach((button) => button.addEventListener("click", () => {
    pin(button.dataset.k);
    if (pinned !== null) timeline.scrollIntoView({ block: "nearest" });
  }));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") { pinned = null; pick(null); } });

  const setZoom = (wanted, clientX) => {
    const next = Math.min(Math.max(wanted, 1), 60), box = scroll.getBoundingClientRect();
    const at = (clientX ?? box.left + box.width / 2) - box.left;
    const place = (scroll.scrollLeft + at) / zoom;
    zoom = next;
    wide.style.setProperty("--zoom", zoom);
    scroll.scrollLeft = place * zoom - at;
    pick(pinned);
  };
  document.querySelector(".zoom").hidden = false;
  document.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => {
    setZoom({ in: zoom * 1.6, out: zoom / 1.6, fit: 1 }[button.dataset.zoom]);
  }));
  scroll.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    setZoom(zoom * Math.exp(-event.deltaY / 300), event.clientX);
  }, { passive: false });
  addEventListener("resize", () => drawFlows(pinned));
})();
