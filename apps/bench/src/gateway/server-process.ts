// A server in a process of its own: `<contender>`.
import { cpuUs, serve } from '../measure/worker.ts'
import type { ServerName } from './contender.ts'

const name = process.argv[2] as ServerName

// Loads the library of this server only.
switch (name) {
  case 'control':
    servePeer(await (await import('./peers.ts')).startControl())
    break
  case 'sdk-v2':
    servePeer(await (await import('./peers.ts')).startSdkV2())
    break
  case 'fastmcp':
    servePeer(await (await import('./peers.ts')).startFastMcp())
    break
  case 'mastra':
    servePeer(await (await import('./peers.ts')).startMastra())
    break
  case 'gateway':
  case 'gateway-200':
  case 'gateway-debounced': {
    const { startGateway } = await import('./gateway-server.ts')
    serve(
      await startGateway({
        tools: name === 'gateway-200' ? 200 : 10,
        isDebounced: name === 'gateway-debounced',
      }),
    )
  }
}

function servePeer(port: number): void {
  serve({ port: () => port, cpu: cpuUs })
}
