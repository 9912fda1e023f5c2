// The client program. The suite starts it for each scenario: `<kind of client> <URL of the server>`.
import { CLIENT_KINDS } from '../plan.ts'
import type { ClientKind } from '../plan.ts'
import { connect } from './clients.ts'
import type { ConnectOptions, SuiteClient, ToolCall } from './clients.ts'
import { providerFor } from './providers.ts'

/** The suite waits for 30 s. It then kills the shell around this process, and not the process. */
const DEADLINE_MS = 28_000

/** One start of the program by the suite. */
interface Run {
  readonly client: ClientKind
  readonly scenario: string
  readonly url: string
  /** More values of the scenario, such as credentials. */
  readonly context: unknown
}

/** How a client acts in a scenario. */
interface Behaviour {
  readonly options?: ConnectOptions
  readonly act: (client: SuiteClient, run: Run) => Promise<void>
}

async function listTools(client: SuiteClient): Promise<void> {
  await client.listTools()
}

/** Calls every tool. Some servers ask the client back, or close the stream before the answer. */
function callEveryTool(args: Record<string, unknown> = {}): (client: SuiteClient) => Promise<void> {
  return async (client) => {
    const { tools } = await client.listTools()
    for (const { name } of tools) await client.callTool({ name, arguments: args })
  }
}

async function useEveryFeature(client: SuiteClient): Promise<void> {
  await callEveryTool()(client)
  const { resources } = await client.listResources()
  for (const { uri } of resources) await client.readResource({ uri })
  const { prompts } = await client.listPrompts()
  for (const { name } of prompts) await client.getPrompt({ name })
}

async function makeCallsOfContext(client: SuiteClient, { context }: Run): Promise<void> {
  const { toolCalls } = context as { toolCalls: readonly ToolCall[] }
  await client.listTools() // shows which arguments go into headers
  for (const call of toolCalls) await client.callTool(call)
}

/** Calls one tool with the input schema of another one, as the client has read it. */
async function echoSchema(client: SuiteClient): Promise<void> {
  const { tools } = await client.listTools()
  const schema = tools.find(({ name }) => name === 'json_schema_2020_12_tool')?.inputSchema
  await client.callTool({ name: 'json_schema_echo', arguments: { schema } })
}

async function callTestTool(client: SuiteClient): Promise<void> {
  await client.listTools()
  await client.callTool({ name: 'test-tool', arguments: {} })
}

async function listSkills({ skills }: SuiteClient): Promise<void> {
  await skills?.list()
}

/** Loads each skill with one more file. A skill that fails a check is not used any further. */
async function loadSkills({ skills }: SuiteClient): Promise<void> {
  const { skills: listed = [] } = (await skills?.list()) ?? {}
  for (const skill of listed) {
    try {
      await skills?.read(skill)
      await skills?.read(skill, 'references/FORMS.md')
    } catch (error) {
      console.error(error)
    }
  }
}

const anything = { applyDefaults: false, content: {} } as const

const BEHAVIOURS: Readonly<Record<string, Behaviour>> = {
  initialize: { act: listTools },
  tools_call: { act: callEveryTool({ a: 5, b: 3 }) },
  'json-schema-ref-no-deref': { act: listTools },
  'json-schema-2020-12-preservation': { act: echoSchema },
  'sse-retry': { act: callEveryTool() },
  'elicitation-sep1034-client-defaults': {
    options: { answers: { elicitation: { applyDefaults: true, content: {} } } },
    act: callEveryTool(),
  },
  'sep-2322-client-request-state': {
    options: { answers: { elicitation: { applyDefaults: false, content: { confirmed: true } } } },
    act: callEveryTool(),
  },
  'request-metadata': {
    options: { answers: { elicitation: anything, sampling: 'Hello', roots: [] } },
    act: callEveryTool(),
  },
  // Headers that repeat parts of the body (SEP-2243).
  'http-standard-headers': { act: useEveryFeature },
  'http-custom-headers': { act: makeCallsOfContext },
  'http-invalid-tool-headers': { act: callEveryTool({ region: 'us-west1' }) },
  // Skills (SEP-2640).
  'sep-2640-client-no-prefetch': { act: listSkills },
  'sep-2640-client-verify-digest': { act: loadSkills },
  'sep-2640-client-verify-size': { act: loadSkills },
  'sep-2640-client-verify-frontmatter': { act: loadSkills },
}

async function behaviourOf({ scenario, context }: Run): Promise<Behaviour> {
  if (scenario.startsWith('auth/')) {
    return { options: { authProvider: await providerFor(scenario, context) }, act: callTestTool }
  }
  const behaviour = BEHAVIOURS[scenario]
  if (behaviour === undefined) throw new TypeError(`Unknown scenario "${scenario}"`)
  return behaviour
}

/** @throws TypeError unless the suite has started this process. */
function runFrom(env: NodeJS.ProcessEnv, args: readonly string[]): Run {
  const client = CLIENT_KINDS.find((kind) => kind === args[0])
  const url = args.at(-1)
  const scenario = env['MCP_CONFORMANCE_SCENARIO']
  if (client === undefined || scenario === undefined || url === undefined || !URL.canParse(url)) {
    throw new TypeError('The conformance suite starts this program: see pnpm conformance --help')
  }
  const context: unknown = JSON.parse(env['MCP_CONFORMANCE_CONTEXT'] ?? 'null')
  return { client, scenario, url, context }
}

setTimeout(() => {
  process.stderr.write(`The client gave up after ${DEADLINE_MS} ms\n`)
  process.exit(3)
}, DEADLINE_MS).unref()

const run = runFrom(process.env, process.argv.slice(2))
const { options, act } = await behaviourOf(run)
await using connection = await connect(run, options)
await act(connection.client, run)
