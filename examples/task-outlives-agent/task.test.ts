import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'

test('the next process gets the result of the task, which is started once', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['main.ts'])
  assert.match(stdout, /was killed while it waited\.\nThe next agent says: about 10\^22\n/)
  assert.match(stdout, /called 1 time\./)
})
