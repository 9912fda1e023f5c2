import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { McpSkills } from '../../src/skills.ts'
import { patientClient } from './misbehaving.ts'

const server = {
  command: process.execPath,
  args: [fileURLToPath(new URL('declaring-server.mjs', import.meta.url))],
}

test('returns what a program declares, also for skills', async () => {
  await using client = patientClient(server)
  expect(await client.serverCapabilities()).toMatchObject({
    extensions: { 'io.modelcontextprotocol/skills': {} },
  })
  expect(await new McpSkills(client).list()).toEqual({ skills: [], invalid: [] })
})

test('does not send a call with a key again to the next process, which does not know the key', async () => {
  await using client = patientClient(server)
  const calls: string[] = []
  client.on('log', ({ message }) => {
    if (message.includes('called')) calls.push(message)
  })
  const call = client.callTool('pay', {}, { idempotencyKey: 'key', timeoutMs: 20_000 })
  await expect(call).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown' })
  expect(calls).toHaveLength(1)
})
