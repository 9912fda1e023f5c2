// A service in a process of its own: `serve.ts <file>` prints its URL and runs until it is killed.
import { SqliteDebugStateStore, createDebugStateServer } from '../src/server/index.ts'

const server = createDebugStateServer({ store: new SqliteDebugStateStore(process.argv[2] ?? '') })
process.stdout.write(`${await server.listen()}\n`)
