// What can be done with hosts and exports.
import { useState } from 'react';
import { api } from '../api/client';
import { useGet } from '../api/resource';
import type { Export, Host } from '../api/types';
import { FormDialog } from '../ui/dialog';
import { Choice, TextInput, Toggle } from '../ui/fields';
import { plural } from '../ui/format';
import { useOwners } from './volume';

const BLOCKS = [
  { id: 'own', label: "The volume's own" },
  { id: '512', label: '512 bytes', note: 'VMware, and Windows of old' },
  { id: '4096', label: '4096 bytes' },
];

export function CreateExport() {
  const volumes = useGet('/v1/volumes').data ?? [];
  const exports = useGet('/v1/exports').data ?? [];
  const hosts = useGet('/v1/hosts').data ?? [];
  const owners = useOwners();
  const [volume, setVolume] = useState('');
  const [block, setBlock] = useState('own');
  const [seenBy, setSeenBy] = useState<string[]>([]);
  const taken = new Set(exports.map((one) => one.volume));
  const pool = volumes.find((one) => one.name === volume)?.pool;
  const candidates = hosts.filter((host) => host.pool === pool);
  const chosen = candidates.map(({ name }) => name).filter((name) => seenBy.includes(name));
  const toggle = (name: string, isOn: boolean) =>
    setSeenBy((before) => [...before.filter((one) => one !== name), ...(isOn ? [name] : [])]);
  const run = async () => {
    const { lun, target } = await api.post('/v1/exports', {
      body: { volume, hosts: chosen, block_bytes: block === 'own' ? null : block === '512' ? 512 : 4096 },
    });
    return `It is LUN ${lun} of ${target}.`;
  };
  return (
    <FormDialog title="Export a volume" task={`export ${volume}`} submit="Export" isIncomplete={volume === ''} run={run}>
      <Choice
        label="Volume"
        value={volume}
        onChange={setVolume}
        options={volumes
          .filter((one) => !taken.has(one.name) && !owners.has(one.name) && !one.device)
          .slice(0, 500)
          .map((one) => ({ id: one.name, label: one.name }))}
      />
      <Choice label="Blocks that hosts address" value={block} onChange={setBlock} options={BLOCKS} />
      {candidates.map(({ name }) => (
        <Toggle
          key={name}
          label={`Host ${name} sees it`}
          isOn={chosen.includes(name)}
          onChange={(isOn) => toggle(name, isOn)}
        />
      ))}
      {volume !== '' && chosen.length === 0 && (
        <p className="note">Every host that comes in sees it. On loopback that is every program of this machine.</p>
      )}
    </FormDialog>
  );
}

export function DeleteExport({ of: { volume, lun, session_count: count } }: { of: Export }) {
  const run = async () => {
    await api.delete('/v1/exports/{volume}', { path: { volume }, query: { force: count > 0 } });
  };
  return (
    <FormDialog
      title={`Export ${volume} no more`}
      task={`delete export ${volume}`}
      submit="Delete the export"
      isDanger
      typed={count > 0 ? volume : undefined}
      run={run}
    >
      <p className="loss">
        {count > 0
          ? `${plural(count, 'session')} of hosts can see LUN ${lun}: whoever uses it gets errors. `
          : `No host that sees LUN ${lun} is logged in. `}
        Its persistent reservations are forgotten. The volume and its data stay.
      </p>
    </FormDialog>
  );
}

/// What is wrong with a secret, if anything; nothing typed is no error yet.
function wrongSecret(secret: string) {
  const bytes = new TextEncoder().encode(secret).length;
  return secret !== '' && (bytes < 12 || bytes > 255) ? '12 to 255 bytes.' : null;
}

function SecretInput({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <TextInput
      label={label}
      value={value}
      onChange={onChange}
      isSecret
      error={wrongSecret(value)}
      hint="12 to 255 bytes; Windows takes at most 16. It is never shown again."
    />
  );
}

export function CreateHost() {
  const pools = useGet('/v1/pools').data ?? [];
  const [pool, setPool] = useState('');
  const [name, setName] = useState('');
  const [initiator, setInitiator] = useState('');
  const [user, setUser] = useState('');
  const [secret, setSecret] = useState('');
  const needsPool = pools.length > 1;
  const isWrong = wrongSecret(secret) !== null;
  const isHalf = (user === '') !== (secret === '');
  const run = async () => {
    await api.post('/v1/hosts', {
      body: { name, initiator, pool: needsPool ? pool : null, chap: user === '' ? null : { user, secret } },
    });
  };
  return (
    <FormDialog
      title="Let a host in"
      task={`create host ${name}`}
      submit="Let it in"
      isIncomplete={name === '' || initiator === '' || isWrong || isHalf || (needsPool && pool === '')}
      run={run}
    >
      <TextInput label="Name" value={name} onChange={setName} autoFocus />
      {needsPool && (
        <Choice
          label="Pool whose volumes it may see"
          value={pool}
          onChange={setPool}
          options={pools.map((one) => ({ id: one.name, label: one.name }))}
        />
      )}
      <TextInput
        label="iSCSI name"
        value={initiator}
        onChange={setInitiator}
        placeholder="iqn.1993-08.org.debian:01:2f6b9d8a51c"
        hint="On Linux it stands in /etc/iscsi/initiatorname.iscsi."
      />
      <TextInput label="CHAP user" value={user} onChange={setUser} hint="Without it anybody on loopback who gives this name comes in; from elsewhere nobody does." />
      <SecretInput label="CHAP secret" value={secret} onChange={setSecret} />
    </FormDialog>
  );
}

const CHANGES = [
  { id: 'new', label: 'A new secret' },
  { id: 'none', label: 'Nothing any more' },
];

export function ChangeHost({ host: { name, sessions, chap_user, mutual_chap_user } }: { host: Host }) {
  const [proof, setProof] = useState(chap_user ? 'same' : 'new');
  const [own, setOwn] = useState('same');
  const [user, setUser] = useState(chap_user ?? name);
  const [secret, setSecret] = useState('');
  const [ownUser, setOwnUser] = useState(mutual_chap_user ?? 'array');
  const [ownSecret, setOwnSecret] = useState('');
  const isProven = proof !== 'none';
  const isWrong = (user: string, secret: string) => user === '' || secret === '' || wrongSecret(secret) !== null;
  const isIncomplete =
    (proof === 'new' && isWrong(user, secret)) ||
    (isProven && own === 'new' && isWrong(ownUser, ownSecret)) ||
    (proof === 'same' && own === 'same');
  const run = async () => {
    await api.patch('/v1/hosts/{host}', {
      path: { host: name },
      body: {
        chap: proof === 'new' ? { user, secret } : null,
        without_chap: !isProven,
        mutual_chap: isProven && own === 'new' ? { user: ownUser, secret: ownSecret } : null,
        without_mutual_chap: isProven && own === 'none',
      },
    });
  };
  return (
    <FormDialog
      title={`Change what host ${name} proves`}
      task={`change host ${name}`}
      submit="Change it"
      isIncomplete={isIncomplete}
      run={run}
    >
      <Choice
        label="The host proves"
        value={proof}
        onChange={setProof}
        options={chap_user ? [{ id: 'same', label: 'What it proves now' }, ...CHANGES] : CHANGES.slice(0, 1)}
      />
      {proof === 'new' && (
        <>
          <TextInput label="CHAP user" value={user} onChange={setUser} />
          <SecretInput label="CHAP secret" value={secret} onChange={setSecret} />
        </>
      )}
      {isProven && (
        <Choice
          label="The array proves, if it is asked"
          value={own}
          onChange={setOwn}
          options={[
            { id: 'same', label: mutual_chap_user ? 'What it proves now' : 'Nothing' },
            ...CHANGES.slice(0, mutual_chap_user ? 2 : 1),
          ]}
        />
      )}
      {isProven && own === 'new' && (
        <>
          <TextInput label="The array's CHAP user" value={ownUser} onChange={setOwnUser} />
          <SecretInput label="The array's secret, another one" value={ownSecret} onChange={setOwnSecret} />
        </>
      )}
      <p className="note">
        {sessions.length > 0
          ? `Its ${plural(sessions.length, 'session')} go on. From its next login on this counts.`
          : 'From its next login on this counts.'}
        {!isProven && ' On loopback anybody who gives its name comes in then; elsewhere nobody does without a secret.'}
      </p>
    </FormDialog>
  );
}

export function DeleteHost({ host: { name, sessions, volumes } }: { host: Host }) {
  const run = async () => {
    await api.delete('/v1/hosts/{host}', { path: { host: name }, query: { force: sessions.length > 0 } });
  };
  return (
    <FormDialog
      title={`Let host ${name} in no more`}
      task={`delete host ${name}`}
      submit="Delete the host"
      isDanger
      typed={sessions.length > 0 ? name : undefined}
      run={run}
    >
      <p className="loss">
        {sessions.length > 0
          ? `It is logged in: its ${plural(sessions.length, 'session')} end, and what it uses gets errors.`
          : `It is not logged in.`}
        {volumes.length > 0 && ` It sees ${volumes.join(', ')} no more. Exports that name it must go first.`}
      </p>
    </FormDialog>
  );
}
