import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { CLIENT_INFO, reportError } from './suite-client.ts'
import type { Answers, SuiteClient } from './suite-client.ts'

/** The `Client` of SDK v1. */
export function makeClientV1({ elicitation, sampling, roots }: Answers): SuiteClient {
  const capabilities = {
    ...(elicitation && { elicitation: { form: { applyDefaults: elicitation.applyDefaults } } }),
    ...(sampling !== undefined && { sampling: {} }),
    ...(roots && { roots: { listChanged: true } }),
  }
  const client = new Client(CLIENT_INFO, { capabilities })
  client.onerror = reportError
  if (elicitation !== undefined) {
    const { content } = elicitation
    client.setRequestHandler(ElicitRequestSchema, () => ({
      action: 'accept',
      content: { ...content },
    }))
  }
  if (sampling !== undefined) {
    client.setRequestHandler(CreateMessageRequestSchema, () => ({
      model: 'none',
      role: 'assistant',
      content: { type: 'text', text: sampling },
    }))
  }
  if (roots !== undefined) {
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [...roots] }))
  }
  return client
}
