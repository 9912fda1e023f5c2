// Writes to a store on disk, and prints a line for each acknowledged write, until it is killed.
import { DiskGatewayStore } from '../src/store/sqlite-store.ts'

const [, , folder = '', name = ''] = process.argv
const store = new DiskGatewayStore(folder)

async function* bytes(): AsyncGenerator<Uint8Array> {
  yield new Uint8Array(1000)
}

for (let n = 0; ; n++) {
  const { id } = await store.blobs.write(bytes(), { limit: 1000, ttlMs: 3_600_000 })
  await store.records.put(`${name}-${n}`, id)
  const limits = { maxEvents: 1_000_000, ttlMs: 3_600_000 }
  const event = await store.logs.append('s', n, { limits, isLast: false })
  process.stdout.write(`${name}-${n} ${id} ${event}\n`)
}
