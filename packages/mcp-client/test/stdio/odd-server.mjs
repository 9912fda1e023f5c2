// A server that answers each method with the JSON in ANSWERS, whatever it is. The text `"NaN"` becomes a number.
import { createInterface } from 'node:readline'

const answers = JSON.parse(process.env.ANSWERS ?? '{}')

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line)
  if (id === undefined) return
  const answer = answers[method] ?? { error: { code: -32601, message: 'Method not found' } }
  const text = JSON.stringify({ jsonrpc: '2.0', id, ...answer })
  process.stdout.write(`${text.replaceAll('"NaN"', 'NaN')}\n`)
})
