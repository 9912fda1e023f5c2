// A server in a process of its own: `<contender>`. Loads the library of this server only.
import { cpuUs, serve } from '../measure/worker.ts'
import type { GatewayName, PeerName, ServerName } from './contender.ts'

const name = process.argv[2] as ServerName
if (name.startsWith('gateway')) {
  const { startGateway } = await import('./gateway-server.ts')
  serve(await startGateway(name as GatewayName))
} else {
  const { PEERS } = await import('./peers.ts')
  const port = await PEERS[name as PeerName]()
  serve({ port: () => port, cpu: cpuUs })
}
