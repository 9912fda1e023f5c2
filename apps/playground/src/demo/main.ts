import {
  CommandError,
  createProgram,
  listenToStopSignals,
  runInProcess,
  runProgram,
  toLine,
  UsageError,
} from '@x/internal/command-line'
import type { CommandContext } from '@x/internal/command-line'
import { executionTypeFrom, EXECUTION_TYPES } from '../timeline/commands.ts'
import { Terminal } from './terminal.ts'
import type { StepResult } from './terminal.ts'

interface Options {
  readonly executionType: (typeof EXECUTION_TYPES)[number]
  readonly step?: true
  readonly json?: true
}

await runInProcess(async (context) => {
  const program = createProgram('demo', import.meta.url, (text) => context.stdout.write(text))
  program
    .description(
      'An agent calls MCP tools, its servers lose their sessions, processes are killed, and it goes on. Everything is real and on this machine, without network and key. Exits with 1 if a figure is wrong.',
    )
    .addOption(
      program
        .createOption(
          '--execution-type <type>',
          'playground: sessions are kept for the next process; runtime, eval: they end with the run',
        )
        .choices([...EXECUTION_TYPES])
        .env('AGENT_EXECUTION_TYPE')
        .default('playground'),
    )
    .option('--step', 'wait for a key before each step')
    .option('--json', 'print the figures as one JSON object in the last line')
    .action((options: Options) => demo(options, context))
  const args = context.args.filter((arg) => arg !== '--') // pnpm passes it on
  return runProgram(program, args, (error) => context.stderr.write(`demo: ${toLine(error)}\n`))
})

/** @throws CommandError if a figure is wrong */
async function demo(options: Options, context: CommandContext): Promise<void> {
  const { stdout, exit } = context
  if (options.step && !process.stdin.isTTY)
    throw new UsageError('--step needs a terminal to read keys from')
  const terminal = new Terminal((text) => stdout.write(text))
  terminal.line('MCP sessions that outlive the process that opened them: the demo')

  // The first line comes at once: the rest takes seconds to load.
  const { Playground } = await import('../host/playground.ts')
  const { Scene } = await import('./scene.ts')
  const { stepsFor } = await import('./steps.ts')
  terminal.line('Starting the servers, the gateway and the agent …')
  await using stack = new AsyncDisposableStack()
  const executionType = executionTypeFrom(options.executionType)
  const playground = stack.use(
    await Playground.start({
      executionType,
      env: { PLAYGROUND_MODEL: 'scripted', REPORT_MS: '2000' },
    }),
  )
  for (const { name, title, problem } of playground.state.servers) {
    terminal.says(name, problem ?? title)
  }
  stack.defer(playground.on((event) => terminal.event(event, playground.state)))
  const scene = new Scene(playground, terminal)
  const steps: StepResult[] = []
  const tell = async (): Promise<void> => {
    for (const step of stepsFor(executionType)) {
      if (options.step) await terminal.waitForKey(process.stdin)
      steps.push(await scene.run(step))
    }
  }
  using signals = listenToStopSignals(context)
  const signal = await Promise.race([tell(), signals.stopped])
  await stack.disposeAsync()
  if (signal !== undefined) exit(130)

  const wrong = steps.filter(({ ok }) => !ok).map(({ name }) => name)
  const ok = wrong.length === 0
  terminal.line()
  if (ok) terminal.line(`All ${steps.length} steps have the figures that they must have.`)
  if (options.json) terminal.line(JSON.stringify({ ok, steps }))
  if (ok) return
  throw new CommandError(`${wrong.length} of ${steps.length} steps are wrong: ${wrong.join(', ')}.`)
}
