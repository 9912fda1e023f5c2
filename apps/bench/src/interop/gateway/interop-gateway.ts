import { once } from 'node:events'
import { get } from 'node:http'
import { createGateway } from '@x/mcp-gateway'
import type { Gateway, GatewayOptions } from '@x/mcp-gateway'
import { graphs } from './graphs.ts'
import { Latecomer } from './latecomer.ts'

/** The gateway that all clients meet, not serving yet. */
export function interopGateway(options: GatewayOptions = {}): Gateway {
  const latecomer = new Latecomer()
  return createGateway({
    agents: graphs(() => latecomer.letIn()),
    sources: [latecomer],
    // A change is told soon: checks wait for it.
    registry: { debounceMs: 20 },
    http: { shutdownGraceMs: 0 },
    ...options,
  })
}

export interface ServedGateway extends AsyncDisposable {
  readonly url: string
  /** Another one takes its place, which knows nothing of its sessions. */
  readonly replace: () => Promise<void>
}

/** Over HTTP, on this machine. */
export async function serveInterop(options: GatewayOptions = {}): Promise<ServedGateway> {
  let gateway = interopGateway(options)
  const { url, port } = await gateway.listen({ port: 0 })
  return {
    url,
    replace: async () => {
      await gateway.close()
      gateway = interopGateway(options)
      await gateway.listen({ port })
      await isReady(port)
    },
    [Symbol.asyncDispose]: () => gateway.close(),
  }
}

/** By a connection of its own, as orchestrators ask; meanwhile clients see that theirs are closed. */
async function isReady(port: number): Promise<void> {
  const request = get({ host: '127.0.0.1', port, path: '/readyz', agent: false })
  const [response] = await once(request, 'response')
  response.resume()
  await once(response, 'end')
}
