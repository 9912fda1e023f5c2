import { rm, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import {
  createProgram,
  listenToStopSignals,
  parseWholeNumber,
  runInProcess,
  runProgram,
  toLine,
} from '@x/internal/command-line'
import type { CommandContext } from '@x/internal/command-line'
import { Hono } from 'hono'
import { Playground } from './host/playground.ts'
import { createWeb, listen } from './host/web.ts'
import { buildPage } from './host/build-page.ts'

const PORT = 4747
/** Read by `agent/studio.ts`, so that LangGraph Studio uses the servers of the playground that runs. */
const STUDIO_FILE = fileURLToPath(new URL('../.playground.env', import.meta.url))

interface Options {
  readonly port: number
  readonly db?: string
}

await runInProcess(async (context) => {
  const program = createProgram('playground', import.meta.url, (text) => context.stdout.write(text))
    .description(
      'Shows MCP sessions live in a web page: an agent, its servers, and what goes wrong.',
    )
    .option(
      '--port <number>',
      'port of the page; 0 for any free port',
      parseWholeNumber(0, 65_535),
      PORT,
    )
    .option(
      '--db <folder>',
      'folder that keeps the conversation and the sessions (default: a temporary one)',
    )
    .action((options: Options) => serve(options, context))
  const args = context.args.filter((arg) => arg !== '--') // pnpm passes it on
  return runProgram(program, args, (error) =>
    context.stderr.write(`playground: ${toLine(error)}\n`),
  )
})

async function serve({ port, db }: Options, context: CommandContext): Promise<void> {
  const { stdout } = context
  using signals = listenToStopSignals(context)
  await (await listen(new Hono(), port))[Symbol.asyncDispose]() // finds out early that the port is in use
  const folder = await buildPage()
  stdout.write('Starting the servers, the gateway and the agent …\n')
  await using playground = await Playground.start({ folder: db })
  await using page = await listen(createWeb(playground, folder), port)
  const { url } = page
  const lines = Object.entries(playground.environment).map(([key, value]) => `${key}=${value}\n`)
  await using stack = new AsyncDisposableStack()
  stack.defer(() => rm(STUDIO_FILE, { force: true }))
  await writeFile(STUDIO_FILE, lines.join(''), { mode: 0o600 })
  stdout.write(`\n  ${url}\n\nPress Ctrl-C to end it.\n`)
  await signals.stopped
}
