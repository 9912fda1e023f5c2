import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startLegacyServer } from '@x/mcp-testing'
import { bundle } from './build.ts'

await using server = await startLegacyServer() // in your program: the URL of your server
const folder = await mkdtemp(join(tmpdir(), 'function-')) // no `node_modules` here, nor above
const file = join(folder, 'handler.mjs')
await bundle(file)

const env = { ...process.env, SHOP_URL: server.url, SESSIONS_FOLDER: join(folder, 'sessions') }
for (const [customer, item] of [
  ['ada', 'apples'],
  ['bob', 'bread'],
  ['ada', 'pears'],
]) {
  const args = ['instance.ts', file, JSON.stringify({ customer, item })]
  const { stdout } = await promisify(execFile)(process.execPath, args, { env })
  console.log(`${customer}: ${stdout.trim()}`)
}
console.log(`sessions: ${server.count('initialize')}`)
await rm(folder, { recursive: true })
