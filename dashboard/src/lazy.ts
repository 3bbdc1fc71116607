// The parts of the dashboard that are read when they are first shown: each page, and what a reader opens on it.

export const alerts = () => import("./pages/Alerts.svelte");
export const capture = () => import("./pages/Capture.svelte");
export const captures = () => import("./pages/Captures.svelte");
export const comparison = () => import("./pages/Comparison.svelte");
export const connection = () => import("./pages/Connection.svelte");
export const connections = () => import("./pages/Connections.svelte");
export const modelCheck = () => import("./pages/ModelCheck.svelte");
export const settings = () => import("./pages/Settings.svelte");
export const specifications = () => import("./pages/Specifications.svelte");
export const team = () => import("./pages/Team.svelte");

// The question is read after the page. The others begin to be read when the pointer or the keyboard comes near the button that opens them.
export const confirmation = () => import("./Confirmation.svelte");
export const days = () => import("./Days.svelte");
export const filterForm = () => import("./FilterForm.svelte");
