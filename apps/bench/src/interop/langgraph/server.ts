import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempDisposable, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { createInterface } from 'node:readline'
import { PassThrough } from 'node:stream'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { freePort } from '@x/mcp-testing'

const CLI = join(
  dirname(createRequire(import.meta.url).resolve('@langchain/langgraph-cli/package.json')),
  'dist/cli/cli.mjs',
)
/** Longer than a start takes on a busy machine. */
const START_MS = 25_000

interface LangGraphServer extends AsyncDisposable {
  readonly url: string
}

/** Starts LangGraph's own server in memory, with the application of `app.ts` as its `http.app`. */
export async function startLangGraphServer(token: string): Promise<LangGraphServer> {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await mkdtempDisposable(join(tmpdir(), 'interop-langgraph-')))
  const config = join(folder.path, 'langgraph.json')
  // The server treats all paths as relative.
  const here = (file: string): string =>
    relative(folder.path, fileURLToPath(new URL(file, import.meta.url)))
  const graphs = { support: `${here('app.ts')}:graph` }
  await writeFile(
    config,
    JSON.stringify({ graphs, http: { app: `${here('app.ts')}:app` }, env: {} }),
  )
  const port = await freePort()
  const child = spawn(
    process.execPath,
    [CLI, 'dev', '--no-browser', '--host', '127.0.0.1', '--port', String(port), '--config', config],
    {
      // A process group of its own, because it leaves its child processes behind when it is killed.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env['PATH'],
        HOME: folder.path,
        MCP_TOKEN: token,
        NODE_OPTIONS: '--conditions=mcp-source',
        LANGSMITH_TRACING: 'false',
      },
    },
  )
  stack.defer(() => stopped(child))
  const output = new PassThrough()
  for (const stream of [child.stdout, child.stderr]) stream.pipe(output, { end: false })
  child.once('close', () => output.end())
  await untilRunning(output)
  const rest = stack.move()
  return { url: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: () => rest.disposeAsync() }
}

async function stopped(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  const closed = once(child, 'close')
  process.kill(-child.pid, 'SIGKILL')
  await closed
}

/** @throws Error with the output, if the server does not start. */
async function untilRunning(output: Readable): Promise<void> {
  const signal = AbortSignal.timeout(START_MS)
  const lines: string[] = []
  for await (const line of createInterface({ input: output, signal })) {
    lines.push(line)
    if (!line.includes('Server running')) continue
    output.resume() // a full pipe would stop the server
    return
  }
  throw new Error(`LangGraph's server did not start: ${lines.join(' / ')}`)
}
