import { expect, test } from 'vitest'
import { ChildOutput } from './child-output.ts'

const KEY = Array.from({ length: 1000 }, (_, index) => index).join('-')

function outputOf(): { output: ChildOutput; lines: string[] } {
  const lines: string[] = []
  const server = {
    env: {
      API_KEY: 'abcdefgh',
      URL: 'abcdefgh-and-more',
      MODE: 'test',
      PEM: 'first line\nsecond line',
      KEY,
    },
    args: ['server.js', '--token', 'tok-in-next', '--api-key=tok-in-same', '--port', '87654321'],
  }
  return { output: new ChildOutput(server, (_level, line) => void lines.push(line)), lines }
}

test.each([
  ['key abcdefgh', 'key [removed]'],
  ['url abcdefgh-and-more', 'url [removed]'],
  ['the second line', 'the [removed]'],
  ['tok-in-next tok-in-same', '[removed] [removed]'],
  ['test on port 87654321 of server.js', 'test on port 87654321 of server.js'],
])('shows "%s" as "%s" in the log and in errors', (text, shown) => {
  const { output, lines } = outputOf()
  output.pushStderr(Buffer.from(`${text}\n`))
  expect(lines).toEqual([shown])
  expect(output.stderrTail).toBe(shown)
})

test('logs the lines of standard error without blank ones, also in pieces and without a line break', () => {
  const { output, lines } = outputOf()
  for (const byte of Buffer.from('key abcdefgh ü🎉\r\n\n  \nunfinished')) {
    output.pushStderr(Buffer.from([byte]))
  }
  output.endStderr()
  expect(lines).toEqual(['key [removed] ü🎉', 'unfinished'])
  expect(output.stderrTail).toBe('key [removed] ü🎉\r\n\n  \nunfinished')
})

test('has no tail if nothing was written', () => {
  expect(outputOf().output.stderrTail).toBeUndefined()
})

test('keeps the last 4 KiB of a long output, without a part of a secret', () => {
  const { output, lines } = outputOf()
  const chunk = Buffer.from(KEY.repeat(30))
  for (let turn = 0; turn < 5; turn++) output.pushStderr(chunk)
  expect(output.stderrTail ?? '').not.toMatch(/\d/)
  output.pushStderr(Buffer.from(`\n${'y'.repeat(10_000)}\n`))
  expect(output.stderrTail).toBe('y'.repeat(4096))
  expect(lines.join('')).not.toMatch(/\d/)
  expect(lines.at(-1)).toBe(`${'y'.repeat(8192)}…`)
})

/** Reads the line as the SDK does, and returns what the error of the server says of it. */
function reportedFor(line: string): string {
  const { output, lines } = outputOf()
  try {
    JSON.parse(line)
  } catch (error) {
    output.addInvalidLine(error as Error)
  }
  expect(lines).toHaveLength(1)
  return `${lines[0]} ${String(output.endOf({ exitCode: 1, signalCode: null }).cause)}`
}

test('quotes a line that is not JSON, but not if it may hold a part of a secret', () => {
  expect(reportedFor('Listening on port 3000')).toMatch(/"Listening.*"Listening/)
  expect(reportedFor('abcdefgh is my key')).not.toContain('abc')
  expect(reportedFor(`"${'x'.repeat(30)}" tok-in-next`)).not.toContain('tok')
})
