import { parseArgs } from 'node:util'
import { executionTypeFrom } from './agent/execution-type.ts'
import type { AgentExecutionType } from './agent/execution-type.ts'
import { UserError } from './user-error.ts'

export interface DemoArguments {
  readonly help: boolean
  readonly json: boolean
  readonly color: boolean
  readonly agent: string | undefined
  readonly servers: string | undefined
  readonly db: string | undefined
  readonly executionType: AgentExecutionType
}

export const HELP = `Usage: pnpm demo [options]

An agent calls MCP tools, its servers forget their sessions, its process is killed, and it goes on; then it
is an MCP server itself, and others call it. Runs on real servers on this machine, needs no network and no
key, and exits with 1 if a figure is wrong.

Options
  --agent <file>     an agent.json of your own (default: the sample in apps/playground)
  --servers <file>   where servers of your own are: {"slug": "https://host/mcp"}, or an mcp.json
  --execution-type <type>
                     playground (default): sessions are kept for the next process;
                     runtime, eval: sessions end with the process or the run.
                     Else the value of AGENT_EXECUTION_TYPE
  --db <file>        SQLite file that keeps the sessions (default: a temporary one)
  --json             print one JSON object as the last line
  --no-color         plain text; also when the output is not a terminal, or NO_COLOR is set
  --help             this text`

/** @throws UserError that names the option or variable. */
export function demoArgumentsFrom(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>> = process.env,
): DemoArguments {
  try {
    const { values } = parseArgs({
      args: args.filter((arg) => arg !== '--'), // pnpm hands it on
      allowNegative: true,
      options: {
        help: { type: 'boolean', short: 'h', default: false },
        json: { type: 'boolean', default: false },
        color: { type: 'boolean', default: true },
        agent: { type: 'string' },
        servers: { type: 'string' },
        db: { type: 'string' },
        'execution-type': { type: 'string' },
      },
    })
    const { help, json, color, agent, servers, db, 'execution-type': given } = values
    const fromEnvironment = environment['AGENT_EXECUTION_TYPE'] || 'playground'
    const executionType =
      given === undefined
        ? executionTypeFrom(fromEnvironment, 'AGENT_EXECUTION_TYPE')
        : executionTypeFrom(given, '--execution-type')
    return { help, json, color, agent, servers, db, executionType }
  } catch (cause) {
    if (cause instanceof UserError) throw cause
    const text = cause instanceof Error ? cause.message : String(cause)
    throw new UserError(`${text.split('\n')[0] ?? ''} (see pnpm demo --help)`, { cause })
  }
}
