// A server that answers each method with the JSON in ANSWERS, whatever it is.
import { createInterface } from 'node:readline'

const answers = JSON.parse(process.env.ANSWERS ?? '{}')

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line)
  if (id === undefined) return
  const answer = answers[method] ?? { error: { code: -32601, message: 'Method not found' } }
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...answer })}\n`)
})
