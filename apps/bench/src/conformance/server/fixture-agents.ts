import type { GraphDefinition } from '@x/mcp-gateway'
import { json, note, pixel, silence } from './fixture-files.ts'
import { fieldsWithDefaults, kindsOfChoice, objectOf, schemaOfContact } from './fixture-forms.ts'
import { graphOf } from './fixture-graph.ts'
import type { Fixture } from './fixture-graph.ts'

/** The agents that scenarios for agents call, by the names of their tools. */
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
        expose: true, // else callers are told no more than that it failed
      })
    },
  },
  test_tool_with_progress: {
    description: 'Tells three times how far it is.',
    work: ({ status }) => {
      for (const percent of [0, 50, 100]) status(`${percent} %`)
      return 'All of it is done.'
    },
  },
  test_tool_with_logging: {
    description: 'Tells three times what it does.',
    work: ({ status }) => {
      status('Tool execution started')
      status('Tool processing data')
      status('Tool execution completed')
      return 'It is logged.'
    },
  },
  test_logging_tool: {
    description: 'Tells what it does, to whoever wants to hear.',
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
  test_image_content: { description: 'Draws.', files: [pixel], work: () => 'One pixel.' },
  test_audio_content: { description: 'Sings.', files: [silence], work: () => 'Not a sound.' },
  test_embedded_resource: { description: 'Writes.', files: [note], work: () => 'A note.' },
  test_multiple_content_types: {
    description: 'Draws and writes.',
    files: [pixel, json],
    work: () => 'Multiple content types test:',
  },
  json_schema_2020_12_tool: {
    description: 'Takes what only schemas of 2020-12 can say.',
    inputSchema: schemaOfContact,
    work: ({ args }) => JSON.stringify(args),
  },
  test_elicitation: {
    description: 'Asks its user what it is told to ask.',
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
    description: 'Asks for each kind of choice.',
    work: ({ ask }) => answered(ask('What do you choose?', kindsOfChoice)),
  },
  test_input_required_result_elicitation: {
    description: 'Asks for a name.',
    work: ({ ask }) => answered(ask('What is your name?', objectOf({ name: { type: 'string' } }))),
  },
  test_input_required_result_request_state: confirmation(),
  test_input_required_result_tampered_state: confirmation(),
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
