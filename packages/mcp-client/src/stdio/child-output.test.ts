import { seededRandom } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { ChildOutput, LineReader, Redaction } from './child-output.ts'

function readerOf(maxBytes = 100): { reader: LineReader; lines: string[]; tooLong: string[] } {
  const lines: string[] = []
  const tooLong: string[] = []
  const onLine = (line: string): void => void lines.push(line)
  const onTooLong = (start: string): void => void tooLong.push(start)
  return { reader: new LineReader({ maxBytes, onLine, onTooLong }), lines, tooLong }
}

test('splits bytes into lines, whatever the size of the chunks', () => {
  const text = 'one\r\nzwei: äöü 🎉\n\nlast'
  for (let seed = 0; seed < 200; seed++) {
    const random = seededRandom(seed)
    const { reader, lines } = readerOf()
    for (let rest = Buffer.from(text); rest.length > 0;) {
      const length = 1 + Math.floor(random() * 5)
      reader.push(rest.subarray(0, length))
      rest = rest.subarray(length)
    }
    reader.end()
    expect(lines).toEqual(['one', 'zwei: äöü 🎉', '', 'last'])
  }
})

test('reports a line that is too long once, and reads the next line', () => {
  const { reader, lines, tooLong } = readerOf(4)
  reader.push(Buffer.from('abc'))
  reader.push(Buffer.from('defghi'))
  reader.push(Buffer.from('jkl\nfour\nfives\nend\n'))
  reader.end()
  expect(tooLong).toEqual(['abcd', 'five'])
  expect(lines).toEqual(['four', 'end'])
})

test('replaces invalid UTF-8', () => {
  const { reader, lines } = readerOf()
  reader.push(Buffer.from([0x61, 0xff, 0xc3, 0x0a]))
  expect(lines).toEqual(['a\u{fffd}\u{fffd}'])
})

const redaction = new Redaction({
  env: {
    KEY: 'first line of key\nsecond line of key',
    API_KEY: 'abcdefgh',
    URL: 'abcdefgh-and-more',
    MODE: 'test',
    PATH: '/usr/local/bin',
  },
  args: [
    'server.js',
    '--token',
    'tok-in-next',
    '--api-key=tok-in-same',
    '--port',
    '87654321',
    '-v',
  ],
})

test.each([
  ['key abcdefgh', 'key [removed]'],
  ['url abcdefgh-and-more', 'url [removed]'],
  ['the second line of key', 'the [removed]'],
  ['tok-in-next tok-in-same', '[removed] [removed]'],
  [
    'test in /usr/local/bin, port 87654321, server.js',
    'test in /usr/local/bin, port 87654321, server.js',
  ],
])('redacts "%s" as "%s"', (text, shown) => {
  expect(redaction.applyTo(text)).toBe(shown)
})

test('shows no part of a secret at a cut', () => {
  for (let length = 0; length < 60; length++) {
    const text = `${'-'.repeat(20)}first line of key\nsecond line of key${'-'.repeat(60)}`
    const shown = redaction.applyToStart(text, length)
    expect(shown).not.toMatch(/fir|rst|sec|key/)
    expect(shown.length).toBeLessThanOrEqual(length + 1)
  }
  expect(redaction.applyToStart('short', 10)).toBe('short')
})

function outputOf(secret = ''): { output: ChildOutput; lines: string[] } {
  const lines: string[] = []
  const log = (_level: string, line: string): void => void lines.push(line)
  const secrets = new Redaction({ env: { SECRET: secret }, args: [] })
  return { output: new ChildOutput(secrets, log), lines }
}

test('logs the lines of standard error without secrets and blank lines, also an unfinished line', () => {
  const { output, lines } = outputOf('hunter22')
  output.pushStderr(Buffer.from('password hun'))
  output.pushStderr(Buffer.from('ter22\n\n  \nunfinished'))
  output.endStderr()
  expect(lines).toEqual(['password [removed]', 'unfinished'])
  expect(output.stderrTail).toBe('password [removed]\n\n  \nunfinished')
})

test('has no tail if nothing was written', () => {
  expect(outputOf().output.stderrTail).toBeUndefined()
})

test('keeps the last 4 KiB of a long output, without a part of a secret', () => {
  const secret = Array.from({ length: 1000 }, (_, index) => index).join('-')
  const { output, lines } = outputOf(secret)
  const chunk = Buffer.from(secret.repeat(30))
  for (let turn = 0; turn < 5; turn++) output.pushStderr(chunk)
  expect(output.stderrTail ?? '').not.toMatch(/\d/)
  output.pushStderr(Buffer.from(`\n${'y'.repeat(10_000)}`))
  expect(output.stderrTail).toBe('y'.repeat(4096))
  expect(lines.join('')).not.toMatch(/\d/)
})
