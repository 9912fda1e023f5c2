import { expect, test } from 'vitest'

import { withoutSecrets } from './check.ts'
import { readConfig } from './config-file.ts'

test('leaves out the secrets of all sections', async () => {
  const content = {
    sources: [
      {
        type: 'langgraph-server',
        url: 'https://a.test/?k=S7',
        headers: { 'x-api-key': 'S1', 'x-key': 'S2' },
      },
      { type: 'a2a', cards: [{ url: 'https://b.test/@a', headers: { authorization: 'S3' } }] },
    ],
    auth: {
      tokens: { ci: { token: 'S4', scopes: ['*'] }, cd: { token: `sha256:${'a'.repeat(64)}` } },
    },
    stateKey: 'S5'.repeat(20),
    store: { url: 'redis://user:S6@localhost:6379' },
  }
  const { config, schema } = await readConfig(content)
  const shown = withoutSecrets(config, schema)
  expect(JSON.stringify(shown)).not.toMatch(/S[1-7]|aaaa/)
  expect(shown).toMatchObject({
    sources: [{ type: 'langgraph-server' }, { cards: [{ url: 'https://b.test/@a' }] }],
    auth: { tokens: { ci: { scopes: ['*'] }, cd: {} } },
    store: { prefix: 'mcp-gateway' },
  })
})
