import { CLIENT_KINDS } from './suite-client.ts'
import type { ClientKind } from './suite-client.ts'

/** What the suite wants of one run of the client. */
export interface Run {
  readonly client: ClientKind
  readonly scenario: string
  readonly url: string
  /** What else a scenario hands over: credentials, calls to make. */
  readonly context: unknown
}

/** How the client acts in a scenario. Rejects if it could not do what the scenario asks for. */
export type Behaviour = (run: Run) => Promise<void>

/** @throws TypeError where the suite did not start us. */
export function runFrom(env: NodeJS.ProcessEnv, args: readonly string[]): Run {
  const client = CLIENT_KINDS.find((kind) => kind === args[0])
  const url = args.at(-1)
  const scenario = env['MCP_CONFORMANCE_SCENARIO']
  const isComplete = client !== undefined && scenario !== undefined && url !== undefined
  if (!isComplete || !URL.canParse(url)) {
    throw new TypeError('The conformance suite starts this: see pnpm conformance --help')
  }
  const context: unknown = JSON.parse(env['MCP_CONFORMANCE_CONTEXT'] ?? 'null')
  return { client, scenario, url, context }
}
