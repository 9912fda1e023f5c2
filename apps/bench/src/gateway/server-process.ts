// A server in a process of its own: `<contender>`.
import { answerTasks } from '../bench/tasks.ts'
import { wishFrom } from '../debugstate/workloads.ts'
import { contenderNameFrom, isLater, toolsOf } from './contender-name.ts'
import type { ContenderName } from './contender-name.ts'
import type { Served } from './servers/served.ts'

const [, , argument] = process.argv
const served = await serve(contenderNameFrom(argument))

answerTasks(async (task) => {
  const what = wishFrom(task)
  switch (what) {
    case 'port':
      return served.port
    case 'cpu': {
      const { user, system } = process.cpuUsage()
      return user + system
    }
    case 'memory':
      return memory()
    default:
      if (served.perform === undefined) throw new TypeError(`No server does "${what}"`)
      return served.perform(what, task)
  }
})

/** Loads nothing of the others. */
async function serve(name: ContenderName): Promise<Served> {
  const tools = toolsOf(name)
  switch (name) {
    case 'control':
      return { port: await (await import('./servers/control.ts')).serveControl() }
    case 'gateway':
    case 'gateway-200':
    case 'gateway-debounced':
    case 'gateway-later':
    case 'gateway-open':
    case 'gateway-plain': {
      const { serveGateway } = await import('./servers/gateway.ts')
      const isPlain = name === 'gateway-plain'
      return serveGateway({
        tools,
        isLater: isLater(name),
        isPlain,
        isDebounced: name === 'gateway-debounced',
        isOpen: isPlain || name === 'gateway-open',
      })
    }
    case 'sdk-v2':
    case 'sdk-v2-200':
    case 'sdk-v2-later':
    case 'sdk-v2-low':
    case 'sdk-v2-resumable': {
      const { serveSdkV2 } = await import('./servers/sdk-v2.ts')
      const { MemoryEventStore } = await import('./servers/memory-event-store.ts')
      return {
        port: await serveSdkV2({
          tools,
          isLater: isLater(name),
          isLow: name === 'sdk-v2-low',
          ...(name === 'sdk-v2-resumable' && { eventStore: () => new MemoryEventStore() }),
        }),
      }
    }
    case 'sdk-v1':
      return { port: await (await import('./servers/sdk-v1.ts')).serveSdkV1(tools) }
    case 'fastmcp':
    case 'fastmcp-later': {
      const { serveFastMcp } = await import('./servers/fastmcp.ts')
      return { port: await serveFastMcp({ tools, isLater: isLater(name) }) }
    }
    case 'mastra':
      return { port: await (await import('./servers/mastra.ts')).serveMastra(tools) }
  }
}

/** What is in use: V8 keeps several times as much for later, until the machine has none left. */
async function memory(): Promise<Readonly<Record<'heapBytes' | 'rssBytes' | 'heldBytes', number>>> {
  const heldBytes = process.memoryUsage.rss()
  for (let turn = 0; turn < 4; turn += 1) {
    globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' })
    await new Promise(setImmediate)
  }
  const { heapUsed, rss } = process.memoryUsage()
  return { heapBytes: heapUsed, rssBytes: rss, heldBytes }
}
