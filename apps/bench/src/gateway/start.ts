import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cp,
  mkdir,
  mkdtempDisposable,
  readdir,
  readFile,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { HOME, UserError } from '../cli.ts'
import { plainFigure } from '../measure/figure.ts'
import type { BenchOptions, BenchResult, Measured } from '../measure/figure.ts'
import { compareInTurns } from '../measure/rounds.ts'
import type { Round } from '../measure/rounds.ts'
import { Connection } from '../measure/raw-http.ts'
import { Worker } from '../measure/worker.ts'
import type { A2aApi } from './a2a-process.ts'
import { messageFrom, postOf } from './protocol.ts'

/** Servers that are started. `node` is a bare `node:http` server, the control. */
const CASES = {
  node: { agents: undefined, count: 0 },
  graph: { agents: 'plain-graph', count: 1 },
  langgraph: { agents: 'langgraph', count: 1 },
  'graph-50': { agents: 'plain-graph', count: 50 },
  'a2a-50': { agents: 'a2a', count: 50 },
} as const

type CaseName = keyof typeof CASES

interface Start {
  /** Time from the start of the process until `/healthz` is answered. */
  readonly healthMs: number
  /** Memory one second after the last request. */
  readonly idleMiB: number
}

/** A server that is alive for longer is killed, which ends every wait for it. */
const LIFE_MS = 60_000
const IDLE_MS = 1000
const HEALTH_REQUEST = 'GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'
const BARE_SERVER = `const server = require('node:http').createServer((_, response) => response.end('ok'))
server.listen(0, '127.0.0.1', () => console.log('http://127.0.0.1:' + server.address().port + '/'))`

/** Time until the built command answers, and its memory, beside a bare server. */
export async function startFigures(options: BenchOptions): Promise<BenchResult> {
  if (process.platform !== 'linux') {
    return { figures: [], invalid: ['the memory of a process is measured on Linux only'] }
  }
  options.progress('start: build')
  await build()
  await using installed = await mkdtempDisposable(join(tmpdir(), 'bench-installed-'))
  const modules = join(installed.path, 'node_modules')
  await install(modules)
  await using remote = new Worker<A2aApi>(['src/gateway/a2a-process.ts', '50'], { core: 1 })
  const cards = await remote.call('urls')
  const names = Object.keys(CASES) as CaseName[]
  for (const name of names) await start(name, modules, cards) // reads the files from the disk
  return await compareInTurns(
    {
      label: 'starts',
      names,
      measure: (name) => start(name, modules, cards),
      control: ({ node }) => node.healthMs,
      figures: (rounds: readonly Round<CaseName, Start>[]) => {
        const health = (name: CaseName): Measured => ({
          name: `start/${name}/healthz`,
          unit: 'ms until the answer',
          values: rounds.map((round) => round[name].healthMs),
        })
        const memory = (name: CaseName): Measured => ({
          name: `start/${name}/idle-rss`,
          unit: 'MiB',
          values: rounds.map((round) => round[name].idleMiB),
        })
        return [
          plainFigure(health('node')),
          plainFigure(health('graph'), { atMost: 300 }),
          plainFigure(health('langgraph'), { atMost: 300 }),
          plainFigure(memory('node')),
          plainFigure(memory('graph-50'), { atMost: 110 }),
          plainFigure(memory('a2a-50'), { atMost: 110 }),
        ]
      },
    },
    options,
  )
}

const ROOT = fileURLToPath(new URL('../..', `file://${HOME}`))
const PACKAGES = ['mcp-gateway', 'mcp-gateway-a2a']

/** Builds the gateway, unless that was done from the same files. */
async function build(): Promise<void> {
  const packages = PACKAGES.map((name) => `--filter=@x/${name}`)
  const args = ['--yes', 'pnpm@12', 'exec', 'turbo', 'run', 'build', ...packages]
  const child = spawn('npx', args, { cwd: ROOT, stdio: ['ignore', 2, 2] })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new UserError('The gateway could not be built: see the output of turbo')
}

/**
 * Copies the built packages to a `node_modules`, beside the dependencies of this package. In the folders of the workspace,
 * Node would read their source maps, which it does for no installed package.
 */
async function install(modules: string): Promise<void> {
  await mkdir(modules)
  await linkAll(join(HOME, 'node_modules'), modules)
  for (const name of PACKAGES) {
    const from = join(ROOT, 'packages', name)
    const to = join(modules, '@x', name)
    await mkdir(join(to, 'node_modules'), { recursive: true })
    await linkAll(join(from, 'node_modules'), join(to, 'node_modules'))
    for (const part of ['dist', 'package.json']) {
      await cp(join(from, part), join(to, part), { recursive: true })
    }
  }
}

/** Links all packages of a `node_modules`, except those of the workspace. */
async function linkAll(from: string, to: string): Promise<void> {
  const names = (await readdir(from)).filter((name) => name !== '@x' && !name.startsWith('.'))
  await Promise.all(names.map((name) => symlink(join(from, name), join(to, name))))
}

/** Starts a server as its users do, waits until it answers, and stops it. */
async function start(name: CaseName, modules: string, cards: readonly string[]): Promise<Start> {
  const command = join(modules, '@x/mcp-gateway/dist/cli.js')
  await using folder = await mkdtempDisposable(join(tmpdir(), 'bench-start-'))
  const config = join(folder.path, 'gateway.yaml')
  if (name !== 'node') {
    await symlink(modules, join(folder.path, 'node_modules'))
    await writeConfig(name, folder.path, cards)
  }
  const args =
    name === 'node'
      ? ['-e', BARE_SERVER]
      : [command, 'serve', config, '--port', '0', '--log-level', 'silent']
  // Neither conditions nor caches of this process.
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'] }
  const startedAt = performance.now()
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 2],
    env,
    timeout: LIFE_MS,
    killSignal: 'SIGKILL',
  })
  try {
    if (child.stdout === null) throw new TypeError('The process has no pipe for its output')
    const { value: address } = await createInterface(child.stdout)[Symbol.asyncIterator]().next()
    if (address === undefined) throw new Error(`${name} ended before it printed its address`)
    const connection = await Connection.open(Number(new URL(address).port))
    const { status } = await connection.request(HEALTH_REQUEST)
    const healthMs = performance.now() - startedAt
    if (status !== 200) throw new Error(`/healthz of ${name} was answered with ${status}`)
    if (name !== 'node') await untilTools(connection, CASES[name].count)
    await new Promise((resolve) => setTimeout(resolve, IDLE_MS))
    const idleMiB = await memoryOf(child.pid)
    await connection.close()
    return { healthMs, idleMiB }
  } finally {
    if (child.exitCode === null && child.signalCode === null) {
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
    }
  }
}

/** Writes the files that a user of the gateway has. */
async function writeConfig(
  name: Exclude<CaseName, 'node'>,
  folder: string,
  cards: readonly string[],
): Promise<void> {
  const { agents, count } = CASES[name]
  const names = Array.from({ length: count }, (_, index) => `agent-${index}`)
  const graphs = names.map((agent) => [agent, { path: './graph.mjs:graph', description: 'Echo' }])
  const source =
    agents === 'a2a'
      ? { type: 'a2a', cards, trustedOrigins: cards.map((card) => new URL(card).origin) }
      : { type: 'langgraph', config: './langgraph.json' }
  await writeFile(join(folder, 'graph.mjs'), agents === 'langgraph' ? LANGGRAPH : PLAIN_GRAPH)
  const langgraph = JSON.stringify({ graphs: Object.fromEntries(graphs) })
  await writeFile(join(folder, 'langgraph.json'), langgraph)
  // JSON is YAML.
  await writeFile(join(folder, 'gateway.yaml'), JSON.stringify({ sources: [source] }))
}

async function untilTools(connection: Connection, count: number): Promise<void> {
  for (;;) {
    const { body } = await connection.request(postOf('modern', { method: 'tools/list', id: 1 }))
    if (messageFrom(body).result?.tools?.length === count) return
  }
}

/** Resident memory in MiB, from `/proc`. */
async function memoryOf(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? Number.NaN) / 1024
}

const LANGGRAPH = `import { AIMessage } from '@langchain/core/messages'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'

export const graph = new StateGraph(MessagesAnnotation)
  .addNode('answer', ({ messages }) => ({ messages: [new AIMessage('You said: ' + messages.at(-1)?.text)] }))
  .addEdge(START, 'answer')
  .addEdge('answer', END)
  .compile()
`

/** A graph without a library, with the parts that the gateway uses. */
const PLAIN_GRAPH = `export const graph = {
  channels: { messages: {} },
  async stream(input) {
    const content = 'You said: ' + JSON.stringify(input.messages.at(-1).content)
    return (async function* () {
      yield [[], 'values', { messages: [{ type: 'ai', content }] }]
    })()
  },
}
`
