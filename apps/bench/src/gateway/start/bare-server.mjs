// What any server takes to start: answers /healthz with node:http. `[file]`: a module that it loads before.
import { createServer } from 'node:http'
import { pathToFileURL } from 'node:url'

const [, , file] = process.argv
if (file !== undefined) await import(pathToFileURL(file).href)
const server = createServer((_, response) => response.end('ok'))
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${server.address().port}/\n`)
})
process.once('SIGTERM', () => process.exit())
