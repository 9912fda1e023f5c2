import {
  createProgram,
  listenToStopSignals,
  runInProcess,
  runProgram,
  UsageError,
} from '@x/internal/command-line'
import type { CommandContext } from '@x/internal/command-line'
import type { ExecutionType } from '../timeline/events.ts'
import { lineFrom } from '../user-error.ts'
import { summaryOf, Terminal } from './terminal.ts'

interface Options {
  readonly db?: string
  readonly executionType?: string
  readonly step?: true
  readonly json?: true
  readonly color: boolean
}

await runInProcess(async (context) => {
  let ownCode: number | undefined
  const program = createProgram('demo', import.meta.url, (text) => context.stdout.write(text))
    .description(
      'An agent calls MCP tools, its servers lose their sessions, processes are killed, and it goes on. Everything is real and on this machine, without network and key. Exits with 1 if a figure is wrong.',
    )
    .option(
      '--execution-type <type>',
      'playground: sessions are kept for the next process; runtime, eval: they end with the run (default: AGENT_EXECUTION_TYPE, or playground)',
    )
    .option('--db <file>', 'SQLite file that keeps the sessions (default: a temporary one)')
    .option('--step', 'wait for a key before each step')
    .option('--json', 'print the figures as one JSON object in the last line')
    .option('--no-color', 'plain text; so it is without a terminal, or with NO_COLOR')
    .action(async (options: Options) => {
      ownCode = await demo(options, context)
    })
  const args = context.args.filter((arg) => arg !== '--') // pnpm passes it on
  const code = await runProgram(program, args, (error) =>
    context.stderr.write(`demo: ${lineFrom(error)}\n`),
  )
  return ownCode ?? code
})

/** Returns the exit code. */
async function demo(options: Options, context: CommandContext): Promise<number> {
  const { stdout, env, onSignal, exit } = context
  const { db, step: waits = false, json = false, color } = options
  const executionType = executionTypeFrom(options, env)
  if (waits && !process.stdin.isTTY)
    throw new UsageError('--step needs a terminal to read keys from')
  const isColored = color && stdout.isTTY === true && !env['NO_COLOR']
  const terminal = new Terminal({ write: (text) => stdout.write(text), isColored })
  terminal.line('MCP sessions that outlive the process that opened them: the demo')

  // The first line comes at once: the rest takes seconds to load.
  const { Playground } = await import('../host/playground.ts')
  const { Scene } = await import('./scene.ts')
  const { stepsFor } = await import('./steps.ts')
  await using stack = new AsyncDisposableStack()
  terminal.line('Starting the servers, the gateway and the agent …')
  const playground = stack.use(
    await Playground.start({
      databaseFile: db,
      executionType,
      reportMs: 2000,
      env: { PLAYGROUND_MODEL: 'scripted' },
    }),
  )
  for (const { name, title, problem } of playground.state.servers) {
    terminal.says(name, problem ?? title)
  }
  stack.defer(playground.on((event) => terminal.event(event)))
  const pause = waits ? () => terminal.waitForKey(process.stdin) : async () => {}
  const scene = new Scene(playground, terminal, pause)
  using signals = listenToStopSignals(onSignal, exit)
  const stopped = signals.stopped.then(() => 'stopped')
  for (const step of stepsFor(scene, executionType === 'playground')) {
    if ((await Promise.race([scene.run(step), stopped])) !== 'stopped') continue
    await stack.disposeAsync()
    exit(130)
  }

  const summary = summaryOf(scene.results)
  terminal.line()
  terminal.line(summary.text)
  await stack.disposeAsync()
  if (json) terminal.line(JSON.stringify(summary.json))
  return summary.json.ok ? 0 : 1
}

function executionTypeFrom(
  { executionType: given }: Options,
  env: CommandContext['env'],
): ExecutionType {
  const value = given ?? (env['AGENT_EXECUTION_TYPE'] || 'playground')
  if (value === 'playground') return value
  if (value === 'runtime' || value === 'eval') return 'runtime'
  const source = given === undefined ? 'AGENT_EXECUTION_TYPE' : '--execution-type'
  throw new UsageError(`${source} must be playground, runtime or eval, not "${value.slice(0, 40)}"`)
}
