import { Worker } from '../measure/worker.ts'
import type { Api } from '../measure/worker.ts'
import type { GatewayApi } from './gateway-server.ts'
import type { LoadApi } from './load-process.ts'

/** A server that the gateway is compared with. The README describes each of them. */
export type PeerName = 'control' | 'sdk-v2' | 'fastmcp' | 'mastra'
/** The gateway, with different options. */
export type GatewayName = 'gateway' | 'gateway-200' | 'gateway-tasks'
export type ServerName = PeerName | GatewayName

/** Functions that every server process offers. */
export type PortApi = Api & { readonly port: () => number; readonly cpu: () => number }

/** A server on core 0, and the process that puts load on it on core 1. */
export interface Contender<Server extends PortApi> extends AsyncDisposable {
  readonly server: Worker<Server>
  readonly load: Worker<LoadApi>
}

export type GatewayServer = Contender<GatewayApi>

export async function startContender<Server extends PortApi>(
  command: readonly string[],
  profileTo?: string,
): Promise<Contender<Server>> {
  await using stack = new AsyncDisposableStack()
  const server = stack.use(new Worker<Server>(command, { core: 0, profileTo }))
  const port = await (server as Worker<PortApi>).call('port')
  const loadProcess = ['src/gateway/load-process.ts', String(port)]
  const load = stack.use(new Worker<LoadApi>(loadProcess, { core: 1 }))
  const started = stack.move()
  return { server, load, [Symbol.asyncDispose]: () => started.disposeAsync() }
}

export function startServer(name: ServerName, profileTo?: string): Promise<Contender<PortApi>> {
  return startContender(['src/gateway/server-process.ts', name], profileTo)
}

export function startGatewayServer(
  name: GatewayName = 'gateway',
  profileTo?: string,
): Promise<GatewayServer> {
  return startContender(['src/gateway/server-process.ts', name], profileTo)
}
