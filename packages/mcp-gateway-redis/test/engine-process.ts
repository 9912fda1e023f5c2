// A gateway with an engine in its own process. Runs until its input ends, or until it is killed.
import { flushCompileCache } from 'node:module'
import { startEngineGateway, type EngineGatewaySettings } from './engine-gateway.ts'

const settings = JSON.parse(process.argv[2] ?? '{}') as EngineGatewaySettings
await using gateway = await startEngineGateway(settings)
flushCompileCache() // a killed process loses its compiled code
process.stdout.write(`ready ${gateway.url}\n`)
await new Promise<void>((resolve) => {
  process.stdin.once('end', resolve).resume()
  process.once('SIGTERM', resolve)
})
process.stdin.destroy() // the process now ends when the gateway has closed everything
