import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'

test('the next instance continues the session of its customer', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['main.ts'])
  assert.match(stdout, /^ada: \{"items":\["apples"\]\}\n/)
  assert.match(stdout, /\nada: \{"items":\["apples","pears"\]\}\n/)
  assert.match(stdout, /\nsessions: 2\n/)
})
