// A drive is replaced, step by step: which, by what, what will happen, how far it is.
import { useState } from 'react';
import { Heading } from 'react-aria-components';
import { api } from '../api/client';
import { asError, type ApiError } from '../api/error';
import { invalidate, useGet } from '../api/resource';
import type { Drive, Pool } from '../api/types';
import { closeDialog } from '../state/dialog';
import { Button, Failure, Notice, Progress } from '../ui/basics';
import { Radios, sizeError, SizeInput, TextInput } from '../ui/fields';
import { bytes, duration, parseSize } from '../ui/format';
import { Force } from './drive';

const STEPS = ['Which drive', 'New drive', 'What will happen', 'Progress'];

export function ReplaceDrive({ pool, number }: { pool: Pool; number?: number }) {
  const [step, setStep] = useState(number === undefined ? 0 : 1);
  const [chosen, setChosen] = useState(number === undefined ? '' : String(number));
  const [path, setPath] = useState('');
  const [size, setSize] = useState('');
  const [isForced, setForced] = useState(false);
  const [isAsking, setAsking] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const old = pool.drives.find((drive) => String(drive.number) === chosen);
  const isPath = path.startsWith('/') ? null : 'Write the absolute path of the new drive.';
  const missing = [chosen === '' ? 'Choose a drive.' : null, isPath ?? sizeError(size), null, null][step];
  const isReady = !missing && !isAsking;
  const begin = async () => {
    setAsking(true);
    setError(null);
    try {
      await api.post('/v1/pools/{pool}/drives/{number}/replace', {
        path: { pool: pool.name, number: Number(chosen) },
        body: { path, size_bytes: size.trim() ? parseSize(size) : null, force: isForced },
      });
      setStep(3);
    } catch (thrown) {
      setError(asError(thrown));
    } finally {
      setAsking(false);
      invalidate();
    }
  };
  const next = () => (step === 2 ? void begin() : setStep(step + 1));
  return (
    <form onSubmit={(event) => (event.preventDefault(), isReady && step < 3 && next())}>
      <Heading slot="title">Replace a drive of pool {pool.name}</Heading>
      <Steps now={step} />
      <div className="dialog-body">
        {step === 0 && <Which pool={pool} value={chosen} onChange={setChosen} />}
        {step === 1 && (
          <>
            <TextInput
              label="Path of the new drive"
              value={path}
              onChange={setPath}
              autoFocus
              placeholder="/dev/nvme7n1"
              hint={`A block device, or a file. It must hold what drive ${chosen} holds${old?.size_bytes ? `: ${bytes(old.size_bytes)} is enough` : ''}.`}
            />
            <SizeInput label="Make a file of this size" value={size} onChange={setSize} hint="Empty: it is there." />
            <Force isOn={isForced} onChange={setForced} />
          </>
        )}
        {step === 2 && <WhatHappens pool={pool} old={old} path={path} isForced={isForced} />}
        {step === 3 && <HowFar pool={pool.name} number={Number(chosen)} />}
        {isAsking && <Progress label="Writing the new drive's superblocks" />}
        {error && <Failure error={error} />}
      </div>
      <footer className="dialog-foot">
        {missing && <span className="note">{missing}</span>}
        {step < 3 && <Button onPress={closeDialog}>Cancel</Button>}
        {step > 0 && step < 3 && (
          <Button onPress={() => (setError(null), setStep(step - 1))} isDisabled={isAsking}>
            Back
          </Button>
        )}
        {step < 3 ? (
          <Button type="submit" tone={step === 2 ? 'danger' : 'primary'} isDisabled={!isReady}>
            {step === 2 ? 'Replace it' : 'Next'}
          </Button>
        ) : (
          <Button tone="primary" onPress={closeDialog}>
            Close
          </Button>
        )}
      </footer>
    </form>
  );
}

function Steps({ now }: { now: number }) {
  return (
    <ol className="steps">
      {STEPS.map((title, index) => (
        <li key={title} aria-current={index === now ? 'step' : undefined} className={index < now ? 'past' : ''}>
          {title}
        </li>
      ))}
    </ol>
  );
}

function Which({ pool, value, onChange }: { pool: Pool; value: string; onChange: (value: string) => void }) {
  const options = pool.drives
    .filter((drive) => drive.number !== null && drive.number !== undefined)
    .map((drive) => ({
      id: String(drive.number),
      label: `Drive ${drive.number}, ${drive.state}`,
      note: [drive.path || drive.last_path || 'not found', drive.reason].filter(Boolean).join(': '),
    }));
  return <Radios label="Drive to replace" value={value} onChange={onChange} options={options} />;
}

function WhatHappens(props: { pool: Pool; old?: Drive; path: string; isForced: boolean }) {
  const { pool, old, path, isForced } = props;
  const serves = old?.state === 'online' || old?.state === 'moving';
  return (
    <>
      <ol className="happens">
        <li>
          {path} becomes drive {old?.number} of pool {pool.name}.
          {isForced && <b className="loss"> Whatever is on it is lost.</b>}
        </li>
        <li>The pool writes to it from then on, and gives it what it lacks in the background. Hosts go on.</li>
        <li>
          {serves
            ? `The old drive, ${old?.path}, serves until the new one has everything; then it no longer carries the pool.`
            : 'The old drive is not needed for it: the others compute what was on it.'}
        </li>
      </ol>
      {pool.protection === 'none' && !serves && (
        <Notice tone="bad">The pool has no protection: what was on a drive that is gone cannot be computed.</Notice>
      )}
      {pool.rebuild && <Notice tone="warn">Drive {pool.rebuild.drive_number} is being rebuilt now; this one follows.</Notice>}
    </>
  );
}

function HowFar({ pool, number }: { pool: string; number: number }) {
  const { data, error } = useGet('/v1/pools/{pool}', { path: { pool } }, 2);
  const drive = data?.drives.find((one) => one.number === number);
  const rebuild = data?.rebuild?.drive_number === number ? data.rebuild : null;
  if (error) return <Failure error={error} />;
  if (!data) return <Progress label="Asking how far it is" />;
  if (rebuild) {
    const left = rebuild.remaining_millis ? `, ${duration(rebuild.remaining_millis / 1000)} left` : '';
    return (
      <>
        <Progress
          label={`Drive ${number} is being rebuilt`}
          share={rebuild.total_bytes > 0 ? rebuild.done_bytes / rebuild.total_bytes : undefined}
          text={`${bytes(rebuild.done_bytes)} of ${bytes(rebuild.total_bytes)}${left}`}
        />
        <p className="note">You may close this: the Drives page shows how far it is.</p>
      </>
    );
  }
  if (drive?.state === 'online') return <Notice tone="good">Drive {number} has everything and is in service.</Notice>;
  if (data.rebuild_error) return <Notice tone="bad">The rebuild failed: {data.rebuild_error}</Notice>;
  return <Progress label={`Drive ${number} is ${drive?.state ?? 'not known'}; its rebuild begins`} />;
}
