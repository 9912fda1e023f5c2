import type { IncomingMessage } from 'node:http'
import { createGateway } from '@x/mcp-gateway'
import { Hono } from 'hono'

// Behind one proxy that sets the header:
export const behind = createGateway({
  http: { clientAddress: { header: 'x-forwarded-for', proxies: 1 } },
})
// Mounted, here on `@hono/node-server`: the application passes the address as the second argument.
const gateway = createGateway({
  http: { clientAddress: (_request, address) => String(address) },
})
const app = new Hono<{ Bindings: { incoming: IncomingMessage } }>()
app.mount('/mcp', gateway.fetch, { optionHandler: (c) => c.env.incoming.socket.remoteAddress })
export {}
