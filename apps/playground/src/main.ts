import { fileURLToPath } from 'node:url'
import { readAgentDefinition } from './story/agent/agent-file.ts'
import { serversFrom } from './story/agent/server-map.ts'
import { demoArgumentsFrom, HELP } from './command-line.ts'
import type { DemoArguments } from './command-line.ts'
import { readJsonFile } from './json-file.ts'
import { preflight } from './story/preflight.ts'
import { tellStory } from './story/story.ts'
import { Terminal } from './story/terminal.ts'
import { startWorld } from './story/world.ts'
import { lineFrom } from './user-error.ts'

const SAMPLE = fileURLToPath(new URL('./story/agent.json', import.meta.url))

async function demo(args: DemoArguments): Promise<boolean> {
  const { json, color, agent: agentFile = SAMPLE, servers: serversFile, db, executionType } = args
  const isColored = color && process.stdout.isTTY && !process.env['NO_COLOR']
  const terminal = new Terminal({ write: (text) => process.stdout.write(text), isColored })
  terminal.line('MCP sessions that outlive the process that opened them: the demo')

  const definition = await readAgentDefinition(agentFile)
  const servers =
    serversFile === undefined ? {} : serversFrom(await readJsonFile(serversFile), serversFile)
  await preflight({ agentFile, definition, serversFile, servers })

  await using world = await startWorld({ databaseFile: db, servers })
  for (const { slug, what, proxy } of world.servers) {
    terminal.line(`  ${slug.padEnd(12)}${proxy.url}  (${what})`)
  }
  terminal.line(`  ${'debug state'.padEnd(12)}${world.debugState.url}  (SQLite)`)
  using stack = new DisposableStack()
  for (const server of world.servers) stack.defer(terminal.follow(server))

  const steps = await tellStory({ world, narrator: terminal, agentFile, servers, executionType })
  stack.dispose()
  const ok = steps.every((step) => step.ok)
  terminal.table(steps)
  terminal.line()
  terminal.line(
    ok ? 'Everything is as it should be.' : 'Something is not as it should be: see above.',
  )
  if (json) {
    const result = steps.map(({ name, ok: isRight, figures }) => ({ name, ok: isRight, figures }))
    terminal.line(JSON.stringify({ ok, steps: result }))
  }
  return ok
}

try {
  const args = demoArgumentsFrom(process.argv.slice(2))
  if (args.help) console.log(HELP)
  else process.exitCode = (await demo(args)) ? 0 : 1
} catch (error) {
  console.error(`demo: ${lineFrom(error)}`)
  process.exitCode = 1
}
