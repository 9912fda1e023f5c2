import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import type { ElicitResult } from '@modelcontextprotocol/sdk/types.js'
import { connect } from './connection.ts'
import type { Connection, ConnectOptions } from './connection.ts'
import type { Behaviour, Run } from './run.ts'

/** The client's own defaults fill what the user left empty (SEP-1034). */
const withDefaults: ConnectOptions = {
  capabilities: { elicitation: { form: { applyDefaults: true } } },
  prepare: (client) => {
    client.setRequestHandler(ElicitRequestSchema, () => accepted({}))
  },
}

const withConfirmation: ConnectOptions = {
  capabilities: { elicitation: { form: {} } },
  prepare: (client) => {
    client.setRequestHandler(ElicitRequestSchema, () => accepted({ confirmed: true }))
  },
}

const withAllInput: ConnectOptions = {
  capabilities: { roots: { listChanged: true }, sampling: {}, elicitation: { form: {} } },
  prepare: (client) => {
    client.setRequestHandler(ElicitRequestSchema, () => accepted({}))
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [] }))
    client.setRequestHandler(CreateMessageRequestSchema, () => ({
      model: 'none',
      role: 'assistant',
      content: { type: 'text', text: 'Hello' },
    }))
  },
}

function accepted(content: NonNullable<ElicitResult['content']>): ElicitResult {
  return { action: 'accept', content }
}

async function callEveryTool({ client }: Connection): Promise<void> {
  const { tools } = await client.listTools()
  for (const { name } of tools) await client.callTool({ name, arguments: {} })
}

/** The server asks on the listening stream. */
async function answerWithDefaults(run: Run): Promise<void> {
  await using connection = await connect(run, withDefaults)
  await callEveryTool(connection)
}

async function confirm(run: Run): Promise<void> {
  await using connection = await connect(run, withConfirmation)
  await callEveryTool(connection)
}

async function declareAllInput(run: Run): Promise<void> {
  await using connection = await connect(run, withAllInput)
  await callEveryTool(connection)
}

/** Servers that ask the client back, and a client that says what it can be asked for. */
export const input: Readonly<Record<string, Behaviour>> = {
  'elicitation-sep1034-client-defaults': answerWithDefaults,
  'sep-2322-client-request-state': confirm,
  'request-metadata': declareAllInput,
}
