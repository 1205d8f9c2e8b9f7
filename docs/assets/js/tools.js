// The interactive tools: each place of one on a page gets its data and its script, which no other page loads.

/** Fetch JSON; an error says which address and what went wrong. */
export async function fetchJson(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status} ${answer.statusText}`);
  return answer.json();
}

async function mount(place) {
  const name = place.dataset.ckTool;
  const source = new URL(place.dataset.ckSource, location.href);
  try {
    const [payload, view] = await Promise.all([fetchJson(source), import(`./tools/${name}/view.js`)]);
    if (!place.isConnected) return; // The reader has gone on.
    await view.mount(place, payload, { fetchPart: (part) => fetchJson(new URL(`${name}-${part}.json`, source)) });
    place.dataset.ckMounted = "yes";
  } catch (error) {
    console.error(error);
    const waiting = place.querySelector(".ck-tool__waiting") ?? place;
    waiting.textContent = `${waiting.textContent} (${error.message})`;
    waiting.setAttribute("role", "alert");
  }
}

/** Bring every tool below `root` to life, once. */
export function mountTools(root) {
  for (const place of root.querySelectorAll("[data-ck-tool]:not([data-ck-mounted])")) {
    place.dataset.ckMounted = "soon";
    mount(place);
  }
}
