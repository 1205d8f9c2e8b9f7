// The theme opens its drawer with a <label>, which a keyboard can't reach: make it a button in all but name.

const drawer = document.getElementById("__drawer");
const opener = document.querySelector(".md-header label[for='__drawer']");

if (drawer && opener) {
  const tell = () => opener.setAttribute("aria-expanded", String(drawer.checked));
  opener.setAttribute("role", "button");
  opener.setAttribute("tabindex", "0");
  tell();
  drawer.addEventListener("change", tell);
  opener.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation(); // The theme clicks a focused label on Enter: twice would be never.
    drawer.click();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && drawer.checked) {
      drawer.click();
      opener.focus();
    }
  });
}
