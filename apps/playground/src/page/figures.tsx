import { useMemo } from 'react'
import type { ReactElement } from 'react'
import type { Exchange } from '../timeline/events.ts'
import { figuresOf } from '../timeline/figures.ts'
import { formatBytes, formatDuration } from './format.ts'

/** Figures of all exchanges, such as the number of calls. */
export function Figures({ exchanges }: { exchanges: readonly Exchange[] }): ReactElement {
  const figures = useMemo(() => figuresOf(exchanges), [exchanges])
  const { handshakesSaved, reconnects, resumes, calls, p50Ms, p95Ms, bytes } = figures
  const [p50, p95] = [p50Ms, p95Ms].map((ms) => (ms === undefined ? '–' : formatDuration(ms)))
  const shown = [
    ['calls', calls, 'Answered tool calls'],
    [
      'handshakes saved',
      handshakesSaved,
      'Compared with a client that opens a session for each call',
    ],
    ['reconnects', reconnects, 'Lost sessions and streams, opened again'],
    ['resumes', resumes, 'Sessions that a new process took up'],
    ['p50', p50, 'Half of the calls were faster'],
    ['p95', p95, '95 % of the calls were faster'],
    ['traffic', formatBytes(bytes), 'Bodies of requests and answers'],
  ]
  return (
    <dl className="figures bar">
      {shown.map(([name, value, help]) => (
        <div key={name} title={String(help)}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}
