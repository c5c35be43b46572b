// Runs the HTTP proxy of @anthropic-ai/sandbox-runtime alone, with a filter that allows one host: srt_proxy.mjs FOLDER HOST
// Its port is the one line on standard output.
import { pathToFileURL } from 'node:url';

const [folder, allowed] = process.argv.slice(2);
const file = `${folder}/node_modules/@anthropic-ai/sandbox-runtime/dist/sandbox/http-proxy.js`;
const { createHttpProxyServer } = await import(pathToFileURL(file));
const server = createHttpProxyServer({ filter: (port, host) => host === allowed });
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
