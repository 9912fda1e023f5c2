// A client that ends each request after a minute, a tool that takes longer, and processes that are killed meanwhile.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { isRecord } from '@x/internal'
import {
  freePort,
  OpenResources,
  sourceNode,
  startRedisServer,
  temporaryFolder,
} from '@x/internal/testing'
import { afterAll, describe, expect, test } from 'vitest'

const redis = await startRedisServer()
afterAll(() => redis?.[Symbol.asyncDispose]())

const MAIN = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))
/** Its three nodes are counted in a folder, and wait there for files. */
const GRAPH = new URL('../../mcp-gateway-redis/test/worker-graph.ts', import.meta.url)
const TOKEN = 'token-of-ada-0123456789'

/** The processes of a gateway that offers the tool `steps`, as a file configures them. */
async function newGateway(resources: OpenResources, store: object) {
  const folder = resources.use(await temporaryFolder())
  const port = await freePort()
  const steps = { path: `${fileURLToPath(GRAPH)}:makeGraph`, description: 'Three steps' }
  await writeFile(folder.file('langgraph.json'), JSON.stringify({ graphs: { steps } }))
  const file = folder.file('gateway.yaml')
  const settings = {
    http: { port },
    sources: [{ type: 'langgraph', config: './langgraph.json' }],
    auth: { tokens: { ada: { token: TOKEN, scopes: ['*'] } } },
    tools: { overrides: { steps: { tasks: 'pair' } } },
    stateKey: 'the same in all processes, and long enough',
    store,
  }
  await writeFile(file, JSON.stringify(settings)) // JSON is YAML
  const lines = async (): Promise<readonly string[]> => {
    const nodes = folder.file('nodes')
    return existsSync(nodes) ? (await readFile(nodes, 'utf8')).split('\n').filter(Boolean) : []
  }
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    /** Starts a process, and waits until it serves or works. @returns a function that sends SIGKILL to it */
    start: async (...args: readonly string[]): Promise<() => Promise<void>> => {
      const [name = '', ...flags] = args
      const command = [MAIN, name, file, '--log-level', 'error', ...flags]
      const child = spawn(sourceNode, ['--conditions=mcp-source', ...command], {
        env: { ...process.env, FOLDER: folder.path },
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const exited = once(child, 'exit')
      const kill = async (): Promise<void> => {
        child.kill('SIGKILL')
        await exited
      }
      resources.defer(kill)
      const died = exited.then(() =>
        Promise.reject(new Error(`${name} ended before its first line`)),
      )
      died.catch(() => {}) // when it is killed
      await Promise.race([once(createInterface({ input: child.stdout }), 'line'), died])
      return kill
    },
    /** Lets a node wait, or continue. */
    put: (name: string) => writeFile(folder.file(name), ''),
    /** Names of the nodes that were begun, in order. */
    nodes: async () => (await lines()).map((line) => line.split(' ')[0]),
    /** Waits until nodes were begun this often. */
    untilNodes: async (count: number): Promise<void> => {
      while ((await lines()).length < count) await sleep(20)
    },
  }
}

/** A client with a session that knows no tasks, as desktop clients are. */
async function connect(resources: OpenResources, url: string) {
  const client = new Client({ name: 'desktop', version: '1.0.0' })
  const requestInit = { headers: { authorization: `Bearer ${TOKEN}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }))
  resources.defer(() => client.close())
  /** @param limit aborts when the time limit of the client is over */
  const call = (name: string, args: Record<string, unknown>, limit?: AbortSignal) => {
    const options = { timeout: 300_000, ...(limit && { signal: limit }) }
    return client.callTool({ name, arguments: args }, undefined, options)
  }
  return {
    call,
    start: async (): Promise<string> => {
      const { structuredContent } = await call('steps_start', { message: 'Go' })
      if (!isRecord(structuredContent)) throw new TypeError('The work has no handle')
      return String(structuredContent['handle'])
    },
    /** Asks for the result, and leaves when the time limit is over: the work is not done then. */
    leave: async (handle: string): Promise<void> => {
      const limit = new AbortController()
      const waiting = call('agent_result', { handle }, limit.signal)
      limit.abort()
      await expect(waiting).rejects.toThrow('abort')
    },
  }
}

const DONE = { content: [{ type: 'text', text: 'after third' }] }

describe('a tool that takes longer than its client waits', () => {
  test('has its result after the gateway with a store on disk was killed', async () => {
    await using resources = new OpenResources()
    const gateway = await newGateway(resources, { dir: './data' })
    await gateway.put('wait-second')
    const kill = await gateway.start('serve')
    const client = await connect(resources, gateway.url)
    const handle = await client.start()
    await gateway.untilNodes(2)
    await client.leave(handle)
    await kill()
    await gateway.start('serve')
    await gateway.untilNodes(3) // before anyone asks
    await client.leave(handle)
    await gateway.put('go-second')
    expect(await client.call('agent_result', { handle })).toMatchObject(DONE)
    expect(await client.call('agent_result', { handle })).toMatchObject(DONE)
    expect(await gateway.nodes()).toEqual(['first', 'second', 'second', 'third'])
  })

  test.runIf(redis)('has its result after gateway and worker on Redis were killed', async () => {
    await using resources = new OpenResources()
    const store = { url: redis?.url, prefix: 'started', tasks: 10 }
    const gateway = await newGateway(resources, store)
    await gateway.put('wait-second')
    const killGateway = await gateway.start('serve', '--no-work')
    const killWorker = await gateway.start('work', '--port', '0')
    const client = await connect(resources, gateway.url)
    const handle = await client.start()
    await gateway.untilNodes(2)
    await client.leave(handle)
    await Promise.all([killGateway(), killWorker()])
    await gateway.start('serve', '--no-work')
    await gateway.start('work', '--port', '0')
    await gateway.untilNodes(3)
    await client.leave(handle)
    await gateway.put('go-second')
    expect(await client.call('agent_result', { handle })).toMatchObject(DONE)
    expect(await gateway.nodes()).toEqual(['first', 'second', 'second', 'third'])
  })
})
