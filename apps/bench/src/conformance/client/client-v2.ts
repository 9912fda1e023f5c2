import { Client } from '@modelcontextprotocol/client'
import { CLIENT_INFO, reportError } from './suite-client.ts'
import type { Answers, SuiteClient } from './suite-client.ts'

/** The `Client` of SDK v2. `legacy` is its default; with `auto` it probes for 2026-07-28 by itself. */
export function makeClientV2(
  { elicitation, sampling, roots }: Answers,
  mode: 'legacy' | 'auto',
): SuiteClient {
  const capabilities = {
    ...(elicitation && { elicitation: { form: { applyDefaults: elicitation.applyDefaults } } }),
    ...(sampling !== undefined && { sampling: {} }),
    ...(roots && { roots: { listChanged: true } }),
  }
  const client = new Client(CLIENT_INFO, { capabilities, versionNegotiation: { mode } })
  client.onerror = reportError
  if (elicitation !== undefined) {
    const { content } = elicitation
    client.setRequestHandler('elicitation/create', () => ({
      action: 'accept',
      content: { ...content },
    }))
  }
  if (sampling !== undefined) {
    client.setRequestHandler('sampling/createMessage', () => ({
      model: 'none',
      role: 'assistant',
      content: { type: 'text', text: sampling },
    }))
  }
  if (roots !== undefined) client.setRequestHandler('roots/list', () => ({ roots: [...roots] }))
  return client
}
