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
  return (
    <dl className="figures">
      <Figure name="calls" value={calls} />
      <Figure name="handshakes saved" value={handshakesSaved} help={SAVED} />
      <Figure name="reconnects" value={reconnects} help="Lost sessions and streams, opened again" />
      <Figure name="resumes" value={resumes} help="Sessions that a new process took up" />
      <Figure name="p50" value={p50} help="Half of the calls were faster" />
      <Figure name="p95" value={p95} help="95 % of the calls were faster" />
      <Figure name="traffic" value={formatBytes(bytes)} help="Bodies of requests and answers" />
    </dl>
  )
}

const SAVED = 'Handshakes that a client needs in addition if it opens a session for each call'

interface FigureProps {
  readonly name: string
  readonly value: string | number | undefined
  readonly help?: string
}

function Figure({ name, value, help }: FigureProps): ReactElement {
  return (
    <div title={help} data-figure={name}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  )
}
