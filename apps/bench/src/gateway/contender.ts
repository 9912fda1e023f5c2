import { Contender } from '../measure/worker.ts'
import type { PortApi } from '../measure/worker.ts'
import type { GatewayApi } from './gateway-server.ts'
import type { LoadApi } from './load-process.ts'

/** A server that is measured. The README describes each of them. */
export type ServerName =
  | 'control'
  | 'gateway'
  | 'gateway-200'
  | 'gateway-debounced'
  | 'sdk-v2'
  | 'fastmcp'
  | 'mastra'

export const LOAD = 'src/gateway/load-process.ts'

export type Server = Contender<PortApi, LoadApi>
export type GatewayServer = Contender<GatewayApi, LoadApi>

export function startServer(name: ServerName, profileTo?: string): Promise<Server> {
  return Contender.start(['src/gateway/server-process.ts', name], LOAD, profileTo)
}

export function startGatewayServer(
  name: 'gateway' | 'gateway-debounced' = 'gateway',
  profileTo?: string,
): Promise<GatewayServer> {
  return Contender.start(['src/gateway/server-process.ts', name], LOAD, profileTo)
}
