// A server in Node.js: /slow takes half a second, /slower 2.5 s, /endless an hour. ON_SIGTERM says what SIGTERM does: `close` stops accepting and lets what is
// in flight finish, `close-later` serves on for 2.5 s before that, `exit` leaves at once, anything else installs no handler.
import http from 'node:http';

const server = http.createServer((request, response) => {
  setTimeout(() => response.end('done\n'), { '/slow': 500, '/slower': 2500, '/endless': 3600000 }[request.url] ?? 0);
});
const close = () => {
  server.close(() => process.exit(0));
  server.closeIdleConnections();
};
const handlers = { close, exit: () => process.exit(0), 'close-later': () => setTimeout(close, 2500) };
const handler = handlers[process.env.ON_SIGTERM];
if (handler) process.on('SIGTERM', handler);
server.listen(process.env.PORT, '0.0.0.0');
