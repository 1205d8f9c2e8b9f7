export function mount(place, payload) {}
