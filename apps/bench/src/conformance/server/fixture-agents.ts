import { setTimeout } from 'node:timers/promises'
import { Annotation, interrupt, MemorySaver, StateGraph } from '@langchain/langgraph'
import type { LangGraphRunnableConfig } from '@langchain/langgraph'
import type { GatewayOptions, GraphDefinition, OutputFile, Skill } from '@x/mcp-gateway'

/** An agent for one scenario. */
interface Fixture {
  readonly description: string
  /** @default no arguments */
  readonly inputSchema?: Skill['inputSchema']
  readonly examples?: readonly string[]
  readonly files?: readonly OutputFile[]
  /** Returns the text of the answer. Runs in the only node of the graph. */
  readonly work: (fixture: Work) => string | Promise<string>
  /** Structured content of the answer. @default none */
  readonly structured?: Readonly<Record<string, unknown>>
}

interface Work {
  readonly args: Readonly<Record<string, unknown>>
  /** Reports the current step. */
  readonly status: (text: string) => void
  /** Interrupts the graph until the user has answered. */
  readonly ask: (message: string, schema: object) => unknown
  /** Interrupts the graph with any value. */
  readonly interrupt: (value: object) => unknown
  /** Waits. Rejects when the call is cancelled. */
  readonly sleep: (ms: number) => Promise<void>
}

const State = Annotation.Root({
  args: Annotation<Readonly<Record<string, unknown>>>(),
  text: Annotation<string>(),
})

function interruptFor(message: string, schema: object): unknown {
  return interrupt({ message, schema })
}

/** A graph with a checkpointer, as an agent with one tool of the same name. */
function graphOf(name: string, fixture: Fixture): GraphDefinition {
  const { description, examples, files, structured } = fixture
  const { inputSchema = { type: 'object', properties: {} } } = fixture
  const graph = new StateGraph(State)
    .addNode('work', async ({ args }, config: LangGraphRunnableConfig) => {
      const status = (text: string): void => config.writer?.({ type: 'status', text })
      const sleep = (ms: number): Promise<void> =>
        setTimeout(ms, undefined, { signal: config.signal })
      const text = await fixture.work({ args, status, ask: interruptFor, interrupt, sleep })
      return { text }
    })
    .addEdge('__start__', 'work')
    .addEdge('work', '__end__')
    .compile({ checkpointer: new MemorySaver() })
  return {
    graph,
    description,
    skills: [{ id: name, name: '', description, inputSchema, ...(examples && { examples }) }],
    input: (input) => ({ args: input.kind === 'arguments' ? input.value : {} }),
    output: ({ text }: typeof State.State) => ({
      text,
      ...(files && { files }),
      ...(structured && { structured }),
    }),
  }
}

/** One red pixel. */
const pixel: OutputFile = file(
  'pixel.png',
  'image/png',
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==',
)

/** A WAV file without samples. */
const silence: OutputFile = file(
  'silence.wav',
  'audio/wav',
  'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=',
)

const note: OutputFile = {
  name: 'note.txt',
  mimeType: 'text/plain',
  data: Buffer.from('This is an embedded resource content.'),
}

const json: OutputFile = {
  name: 'data.json',
  mimeType: 'application/json',
  data: Buffer.from(JSON.stringify({ test: 'data', value: 123 })),
}

function file(name: string, mimeType: string, base64: string): OutputFile {
  return { name, mimeType, data: Buffer.from(base64, 'base64') }
}

/** JSON Schema of an object with these required properties. */
function objectOf(properties: Readonly<Record<string, object>>): {
  readonly [keyword: string]: unknown
} {
  return { type: 'object', properties, required: Object.keys(properties) }
}

/** A default for each kind of form field (SEP-1034). */
const fieldsWithDefaults: object = {
  type: 'object',
  properties: {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
  },
}

/** Each kind of enum (SEP-1330). */
const kindsOfChoice: object = {
  type: 'object',
  properties: {
    untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
    titledSingle: { type: 'string', oneOf: titled('Option') },
    legacyEnum: {
      type: 'string',
      enum: ['opt1', 'opt2', 'opt3'],
      enumNames: ['Option One', 'Option Two', 'Option Three'],
    },
    untitledMulti: {
      type: 'array',
      items: { type: 'string', enum: ['option1', 'option2', 'option3'] },
    },
    titledMulti: { type: 'array', items: { anyOf: titled('Choice') } },
  },
}

function titled(what: string): readonly object[] {
  return ['First', 'Second', 'Third'].map((nth, index) => ({
    const: `value${index + 1}`,
    title: `${nth} ${what}`,
  }))
}

/** Keywords that `tools/list` must keep (SEP-1613, SEP-2106). */
const schemaOfContact: Readonly<Record<string, unknown>> = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema, which is not awaited
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
}

/** The agents that scenarios call, by the names of their tools. */
const FIXTURES: Readonly<Record<string, Fixture>> = {
  test_simple_text: {
    description: 'Answers with one sentence.',
    examples: ['Say something simple'],
    work: () => 'This is a simple text response for testing.',
  },
  test_error_handling: {
    description: 'Fails.',
    work: () => {
      throw Object.assign(new Error('This tool intentionally returns an error for testing'), {
        expose: true, // else the caller does not get the message
      })
    },
  },
  test_tool_with_progress: {
    description: 'Reports progress three times.',
    work: ({ status }) => {
      for (const percent of [0, 50, 100]) status(`${percent} %`)
      return 'All of it is done.'
    },
  },
  test_tool_with_logging: {
    description: 'Reports its steps three times.',
    work: ({ status }) => {
      status('Tool execution started')
      status('Tool processing data')
      status('Tool execution completed')
      return 'It is logged.'
    },
  },
  test_logging_tool: {
    description: 'Reports its step.',
    work: ({ status }) => {
      status('working')
      return 'Done.'
    },
  },
  test_streaming_elicitation: {
    ...confirmation(),
    work: ({ status, ask }) => {
      status('about to ask')
      return answered(ask('Go on?', objectOf({ ok: { type: 'boolean' } })))
    },
  },
  test_image_content: {
    description: 'Returns an image.',
    files: [pixel],
    work: () => 'One pixel.',
  },
  test_audio_content: {
    description: 'Returns a sound.',
    files: [silence],
    work: () => 'Not a sound.',
  },
  test_embedded_resource: {
    description: 'Returns a text file.',
    files: [note],
    work: () => 'A note.',
  },
  test_multiple_content_types: {
    description: 'Returns an image and a JSON file.',
    files: [pixel, json],
    work: () => 'Multiple content types test:',
  },
  json_schema_2020_12_tool: {
    description: 'Has a schema with keywords of JSON Schema 2020-12.',
    inputSchema: schemaOfContact,
    work: ({ args }) => JSON.stringify(args),
  },
  test_elicitation: {
    description: 'Asks the user the given question.',
    inputSchema: objectOf({ message: { type: 'string' } }),
    work: ({ args, ask }) => {
      const schema = objectOf({
        username: { type: 'string', description: "User's response" },
        email: { type: 'string', description: "User's email address" },
      })
      return answered(ask(String(args['message']), schema))
    },
  },
  test_elicitation_sep1034_defaults: {
    description: 'Asks with a default for each kind of field.',
    work: ({ ask }) => answered(ask('Who are you?', fieldsWithDefaults)),
  },
  test_elicitation_sep1330_enums: {
    description: 'Asks with each kind of enum.',
    work: ({ ask }) => answered(ask('What do you choose?', kindsOfChoice)),
  },
  test_input_required_result_elicitation: {
    description: 'Asks for a name.',
    work: ({ ask }) => answered(ask('What is your name?', objectOf({ name: { type: 'string' } }))),
  },
  test_input_required_result_request_state: confirmation(),
  test_input_required_result_tampered_state: confirmation(),
  greet: {
    description: 'Greets.',
    inputSchema: objectOf({ name: { type: 'string' } }),
    work: ({ args }) => `Hello, ${String(args['name'])}!`,
  },
  slow_compute: {
    description: 'Takes the given time.',
    inputSchema: objectOf({ seconds: { type: 'number' }, label: { type: 'string' } }),
    work: async ({ args, sleep }) => {
      await sleep(Number(args['seconds']) * 1000)
      return `Computed ${String(args['label'])}.`
    },
  },
  failing_job: {
    description: 'Fails after a second.',
    work: async ({ sleep }) => {
      await sleep(1000)
      throw Object.assign(new Error('The job failed'), { expose: true })
    },
  },
  protocol_error_job: {
    description: 'Returns what no message can hold, which is an error of the server.',
    work: () => 'Done.',
    structured: { value: 1n },
  },
  confirm_delete: {
    ...confirmation(),
    inputSchema: objectOf({ filename: { type: 'string' } }),
    work: ({ args, ask }) =>
      answered(
        ask(`Delete ${String(args['filename'])}?`, objectOf({ confirm: { type: 'boolean' } })),
      ),
  },
  multi_input: {
    description: 'Asks two questions at once.',
    work: ({ interrupt: pause }) => {
      const params = { message: 'Who?', requestedSchema: objectOf({ name: { type: 'string' } }) }
      const inputRequests = { first: { params }, second: { params } }
      return answered(pause({ type: 'mcp_elicitation', key: 'both', inputRequests }))
    },
  },
  test_tool_with_task: {
    description: 'Asks for a name before it begins, and then takes three seconds.',
    work: async ({ interrupt: pause, sleep }) => {
      const schema = objectOf({ name: { type: 'string' } })
      const answer = pause({ message: 'What is your name?', schema, beforeTask: true })
      await sleep(3000)
      return answered(answer)
    },
  },
  test_input_required_result_multi_round: {
    description: 'Asks for a name, and then for a colour.',
    work: ({ ask }) => {
      const name = ask('Step 1: What is your name?', objectOf({ name: { type: 'string' } }))
      const colour = ask(
        'Step 2: What is your favorite color?',
        objectOf({ color: { type: 'string' } }),
      )
      return answered([name, colour])
    },
  },
}

/** Which calls of these agents become tasks. */
export const fixtureOverrides: NonNullable<NonNullable<GatewayOptions['tools']>['overrides']> = {
  greet: { tasks: 'never' },
  slow_compute: { tasks: 'always' },
  failing_job: { tasks: 'required' },
  protocol_error_job: { tasks: 'always' },
}

export const fixtureAgents: Readonly<Record<string, GraphDefinition>> = Object.fromEntries(
  Object.entries(FIXTURES).map(([name, fixture]) => [name, graphOf(name, fixture)]),
)

function confirmation(): Fixture {
  return {
    description: 'Asks for a confirmation.',
    work: ({ ask }) =>
      `state-ok ${answered(ask('Confirm', objectOf({ ok: { type: 'boolean' } })))}`,
  }
}

function answered(answer: unknown): string {
  return `Answered: ${JSON.stringify(answer)}`
}
