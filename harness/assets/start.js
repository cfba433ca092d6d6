// The page sets itself up once it was seen: its first paint waits for no other script.

const setUp = () => import('./app.js');

// Of a page in the background no frame is drawn.
if (document.hidden) setUp();
else requestAnimationFrame(() => setTimeout(setUp));
