import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startLegacyServer } from '@x/mcp-testing'
import { startAgent } from './agent.ts'
import { modelThatAdds } from './model.ts'

test('the next agent continues the thread and its session, and sends no handshake', async () => {
  await using server = await startLegacyServer()
  const folder = await mkdtemp(join(tmpdir(), 'threads-'))
  const first = await startAgent({ url: server.url, folder, model: modelThatAdds('apples') })
  assert.equal(await first.say('t1', 'Add apples'), 'cart holds apples (4 messages)')
  await first.close()
  const handshakes = server.count('initialize')

  const second = await startAgent({ url: server.url, folder, model: modelThatAdds('pears') })
  assert.equal(await second.say('t1', 'Add pears'), 'cart holds apples, pears (8 messages)')
  await second.close()
  await rm(folder, { recursive: true })
  assert.equal(server.count('initialize'), handshakes)
  assert.equal(server.executions('cart_add'), 2)
})
