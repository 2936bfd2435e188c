//! iSCSI PDUs: bytes to structs and structs to bytes, digests included (RFC 7143 section 11).
//!
//! All numbers are big-endian, but digests, which are sent lowest byte first. A PDU is a header of 48 bytes,
//! additional headers, the header digest, the data segment filled to four bytes, the data digest.

/// Bytes of the basic header segment.
pub const HEADER_BYTES: usize = 48;
/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 4;
/// "No tag": a task tag or transfer tag that names nothing.
pub const NO_TAG: u32 = 0xffff_ffff;
/// The largest data segment before anything was negotiated (RFC 7143 13.12).
pub const DATA_BYTES_MAX_DEFAULT: u32 = 8192;

/// Opcodes of initiators (11.2.1.2).
pub mod opcode {
    pub const NOP_OUT: u8 = 0x00;
    pub const SCSI_COMMAND: u8 = 0x01;
    pub const TASK_MANAGEMENT: u8 = 0x02;
    pub const LOGIN: u8 = 0x03;
    pub const TEXT: u8 = 0x04;
    pub const DATA_OUT: u8 = 0x05;
    pub const LOGOUT: u8 = 0x06;
    pub const SNACK: u8 = 0x10;
    pub const NOP_IN: u8 = 0x20;
    pub const SCSI_RESPONSE: u8 = 0x21;
    pub const TASK_MANAGEMENT_RESPONSE: u8 = 0x22;
    pub const LOGIN_RESPONSE: u8 = 0x23;
    pub const TEXT_RESPONSE: u8 = 0x24;
    pub const DATA_IN: u8 = 0x25;
    pub const LOGOUT_RESPONSE: u8 = 0x26;
    pub const READY_TO_TRANSFER: u8 = 0x31;
    pub const ASYNC_MESSAGE: u8 = 0x32;
    pub const REJECT: u8 = 0x3f;
}

/// Reasons of a Reject (11.17.1).
pub mod reject {
    pub const PROTOCOL_ERROR: u8 = 0x04;
    pub const COMMAND_NOT_SUPPORTED: u8 = 0x05;
    pub const TOO_MANY_IMMEDIATE: u8 = 0x06;
    pub const TASK_IN_PROGRESS: u8 = 0x07;
    pub const INVALID_FIELD: u8 = 0x09;
}

/// Status class and detail of a login response (11.13.5).
pub mod login_status {
    pub const SUCCESS: u16 = 0x0000;
    pub const INITIATOR_ERROR: u16 = 0x0200;
    pub const AUTHENTICATION_FAILURE: u16 = 0x0201;
    pub const AUTHORIZATION_FAILURE: u16 = 0x0202;
    pub const NOT_FOUND: u16 = 0x0203;
    pub const UNSUPPORTED_VERSION: u16 = 0x0205;
    pub const MISSING_PARAMETER: u16 = 0x0207;
    pub const SESSION_DOES_NOT_EXIST: u16 = 0x020a;
    pub const INVALID_DURING_LOGIN: u16 = 0x020b;
    pub const SERVICE_UNAVAILABLE: u16 = 0x0301;
    pub const OUT_OF_RESOURCES: u16 = 0x0302;
}

/// The first bit of byte 1: the last PDU of its sequence, or T of a login.
pub const FINAL: u8 = 0x80;
/// C: the text goes on in the next PDU.
pub const CONTINUE: u8 = 0x40;
/// Bit 6 of byte 0: deliver at once.
const IMMEDIATE: u8 = 0x40;

/// Which digests were agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digests {
    pub header: bool,
    pub data: bool,
}

/// One PDU in a stream.
#[derive(PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    pub header: &'a [u8; HEADER_BYTES],
    /// The data segment without its padding.
    pub data: &'a [u8],
    /// Where the data segment begins in the input.
    pub data_at: usize,
    /// Bytes of the whole PDU.
    pub bytes: usize,
}

/// What the front of a stream is.
#[derive(PartialEq, Eq, Debug)]
pub enum Framed<'a> {
    /// Not yet a whole PDU.
    Incomplete,
    Whole(Frame<'a>),
    /// Nothing behind this can be understood: end the connection.
    Broken(&'static str),
}

/// CRC-32C of the parts, as it stands on the wire (13.1, 11.2.3).
#[must_use]
pub fn digest(parts: &[&[u8]]) -> [u8; DIGEST_BYTES] {
    parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part)).to_le_bytes()
}

/// Bytes that fill a data segment to four (11.2.1.5).
#[must_use]
pub fn padding(length: usize) -> usize {
    length.next_multiple_of(4) - length
}

/// Finds the PDU at the front. A data segment longer than this side declared breaks the stream, because
/// nobody has room for it; so does a wrong digest, because at error recovery level 0 nothing is asked for
/// again.
#[must_use]
pub fn frame(input: &[u8], digests: Digests, data_bytes_max: u32) -> Framed<'_> {
    let Some(header) = input.first_chunk::<HEADER_BYTES>() else { return Framed::Incomplete };
    let data_bytes = u32::from_be_bytes([0, header[5], header[6], header[7]]);
    if data_bytes > data_bytes_max {
        return Framed::Broken("data segment longer than was declared");
    }
    let data_bytes = data_bytes as usize;
    let header_end = HEADER_BYTES + 4 * usize::from(header[4]);
    let data_at = header_end + if digests.header { DIGEST_BYTES } else { 0 };
    let padded_end = data_at + data_bytes.next_multiple_of(4);
    let has_data_digest = digests.data && data_bytes > 0;
    // The header is looked at as soon as it is there: what it says of lengths may be wrong.
    if digests.header {
        let Some(stored) = input.get(header_end..data_at) else { return Framed::Incomplete };
        if stored != digest(&[&input[..header_end]]) {
            return Framed::Broken("header digest mismatch");
        }
    }
    let bytes = padded_end + if has_data_digest { DIGEST_BYTES } else { 0 };
    if input.len() < bytes {
        return Framed::Incomplete;
    }
    if has_data_digest && input[padded_end..bytes] != digest(&[&input[data_at..padded_end]]) {
        return Framed::Broken("data digest mismatch");
    }
    let data = &input[data_at..data_at + data_bytes];
    Framed::Whole(Frame { header, data, data_at, bytes })
}

/// The fields that most requests have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Common {
    /// Deliver at once, without a command number of its own.
    pub is_immediate: bool,
    pub task_tag: u32,
    pub cmd_sn: u32,
    pub exp_stat_sn: u32,
}

/// A SCSI command (11.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// No unsolicited data follow.
    pub is_final: bool,
    pub is_read: bool,
    pub is_write: bool,
    pub address: [u8; 8],
    /// Expected data transfer length.
    pub expected_bytes: u32,
    pub cdb: [u8; 16],
}

/// A login request (11.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Login {
    pub is_transit: bool,
    pub is_continued: bool,
    pub stage: u8,
    pub next_stage: u8,
    pub version_min: u8,
    pub isid: [u8; 6],
    pub session_handle: u16,
    pub connection: u16,
}

/// Data for a command (11.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataOut {
    pub is_final: bool,
    pub task_tag: u32,
    /// The ready to transfer it answers, or [`NO_TAG`].
    pub transfer_tag: u32,
    pub data_sn: u32,
    pub offset: u32,
}

/// A task management request (11.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskManagement {
    pub function: u8,
    pub address: [u8; 8],
    pub referenced_tag: u32,
}

/// What an initiator asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    NopOut {
        transfer_tag: u32,
    },
    Command(Command),
    TaskManagement(TaskManagement),
    Login(Login),
    Text {
        is_final: bool,
        is_continued: bool,
        transfer_tag: u32,
    },
    DataOut(DataOut),
    Logout {
        reason: u8,
        connection: u16,
    },
    /// Asks for something again, which recovery level 0 does not do.
    Snack,
    /// No opcode of an initiator.
    Unknown,
}

fn u32_at(header: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

fn u16_at(header: &[u8; HEADER_BYTES], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

fn part<const N: usize>(header: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|index| header[at + index])
}

/// Reads a header. Fields that no one looks at are not checked.
#[must_use]
pub fn parse(header: &[u8; HEADER_BYTES]) -> (Common, Request) {
    let common = Common {
        is_immediate: header[0] & IMMEDIATE != 0,
        task_tag: u32_at(header, 16),
        cmd_sn: u32_at(header, 24),
        exp_stat_sn: u32_at(header, 28),
    };
    let flags = header[1];
    let is_final = flags & FINAL != 0;
    let is_continued = flags & CONTINUE != 0;
    let transfer_tag = u32_at(header, 20);
    let request = match header[0] & 0x3f {
        opcode::NOP_OUT => Request::NopOut { transfer_tag },
        opcode::SCSI_COMMAND => Request::Command(Command {
            is_final,
            is_read: flags & 0x40 != 0,
            is_write: flags & 0x20 != 0,
            address: part(header, 8),
            expected_bytes: u32_at(header, 20),
            cdb: part(header, 32),
        }),
        opcode::TASK_MANAGEMENT => Request::TaskManagement(TaskManagement {
            function: flags & 0x7f,
            address: part(header, 8),
            referenced_tag: u32_at(header, 20),
        }),
        opcode::LOGIN => Request::Login(Login {
            is_transit: is_final,
            is_continued,
            stage: flags >> 2 & 3,
            next_stage: flags & 3,
            version_min: header[3],
            isid: part(header, 8),
            session_handle: u16_at(header, 14),
            connection: u16_at(header, 20),
        }),
        opcode::TEXT => Request::Text { is_final, is_continued, transfer_tag },
        opcode::DATA_OUT => Request::DataOut(DataOut {
            is_final,
            task_tag: common.task_tag,
            transfer_tag,
            data_sn: u32_at(header, 36),
            offset: u32_at(header, 40),
        }),
        opcode::LOGOUT => Request::Logout { reason: flags & 0x7f, connection: u16_at(header, 20) },
        opcode::SNACK => Request::Snack,
        _ => Request::Unknown,
    };
    (common, request)
}

/// Numbers that every response carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    pub stat_sn: u32,
    pub exp_cmd_sn: u32,
    pub max_cmd_sn: u32,
}

/// A header being made.
pub struct Response {
    bytes: [u8; HEADER_BYTES],
}

impl Response {
    /// Opcode, the flags of byte 1, the task tag, and the numbers in their places.
    #[must_use]
    pub fn new(opcode: u8, flags: u8, task_tag: u32, numbers: Numbers) -> Response {
        let mut response = Response { bytes: [0; HEADER_BYTES] };
        response.bytes[0] = opcode;
        response.bytes[1] = flags;
        response
            .put(16, &task_tag.to_be_bytes())
            .put(24, &numbers.stat_sn.to_be_bytes())
            .put(28, &numbers.exp_cmd_sn.to_be_bytes())
            .put(32, &numbers.max_cmd_sn.to_be_bytes())
    }

    /// Writes a field.
    #[must_use]
    pub fn put(mut self, at: usize, part: &[u8]) -> Response {
        self.bytes[at..at + part.len()].copy_from_slice(part);
        self
    }

    /// The header of a PDU with so much data.
    #[must_use]
    pub fn header(mut self, data_bytes: usize) -> [u8; HEADER_BYTES] {
        let length = u32::try_from(data_bytes).expect("a data segment is shorter than 16 MiB");
        let [zero, length @ ..] = length.to_be_bytes();
        assert_eq!(zero, 0, "a data segment of {data_bytes} bytes");
        self.bytes[5..8].copy_from_slice(&length);
        self.bytes
    }
}

/// Where bytes for the initiator go.
pub trait Output {
    /// Appends bytes to the stream.
    fn put(&mut self, bytes: &[u8]);
}

impl Output for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Sends a PDU: header, header digest, data in pieces, padding, data digest.
pub fn put_pdu(response: Response, data: &[&[u8]], digests: Digests, out: &mut dyn Output) {
    let data_bytes: usize = data.iter().map(|piece| piece.len()).sum();
    let header = response.header(data_bytes);
    out.put(&header);
    if digests.header {
        out.put(&digest(&[&header]));
    }
    if data_bytes == 0 {
        return;
    }
    let fill = &[0; 3][..padding(data_bytes)];
    data.iter().for_each(|piece| out.put(piece));
    out.put(fill);
    if digests.data {
        let mut parts = data.to_vec();
        parts.push(fill);
        out.put(&digest(&parts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Digests = Digests { header: true, data: true };

    /// The examples of RFC 7143 appendix A.
    #[test]
    fn digests_are_those_of_the_standard() {
        assert_eq!(digest(&[&[0; 32]]), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(digest(&[&[0xff; 32]]), [0x43, 0xab, 0xa8, 0x62]);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(digest(&[&rising]), [0x4e, 0x79, 0xdd, 0x46]);
        assert_eq!(digest(&[&rising[..7], &rising[7..]]), digest(&[&rising]));
    }

    fn pdu(data: &[u8], digests: Digests) -> Vec<u8> {
        let mut bytes = Vec::new();
        let numbers = Numbers { stat_sn: 1, exp_cmd_sn: 2, max_cmd_sn: 3 };
        put_pdu(Response::new(opcode::NOP_IN, FINAL, 7, numbers), &[data], digests, &mut bytes);
        bytes
    }

    #[test]
    fn what_is_put_is_framed_and_every_cut_is_incomplete() {
        for digests in [Digests::default(), ALL] {
            for length in 0..9 {
                let data = vec![0x5a; length];
                let bytes = pdu(&data, digests);
                for cut in 0..bytes.len() {
                    assert_eq!(frame(&bytes[..cut], digests, 8192), Framed::Incomplete, "{cut} of {length}");
                }
                let Framed::Whole(whole) = frame(&bytes, digests, 8192) else { panic!("not whole") };
                assert_eq!((whole.data, whole.bytes), (&data[..], bytes.len()));
            }
        }
    }

    #[test]
    fn one_wrong_bit_anywhere_breaks_a_pdu_with_digests() {
        let bytes = pdu(&[1, 2, 3, 4, 5], ALL);
        for index in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[index] ^= 0x10;
            assert!(!matches!(frame(&wrong, ALL, 8192), Framed::Whole(_)), "byte {index}");
        }
    }

    #[test]
    fn a_data_segment_above_the_limit_breaks_before_it_arrives() {
        let bytes = pdu(&[0; 100], Digests::default());
        assert_eq!(
            frame(&bytes[..48], Digests::default(), 99),
            Framed::Broken("data segment longer than was declared")
        );
        assert_eq!(frame(&bytes[..48], Digests::default(), 100), Framed::Incomplete);
    }

    #[test]
    fn additional_headers_are_skipped() {
        let mut bytes = pdu(&[], Digests::default());
        bytes[4] = 2;
        bytes.extend_from_slice(&[0; 8]);
        let Framed::Whole(whole) = frame(&bytes, Digests::default(), 8192) else { panic!("not whole") };
        assert_eq!((whole.bytes, whole.data.len()), (56, 0));
    }

    #[test]
    fn a_command_is_read_field_by_field() {
        let mut header = [0; HEADER_BYTES];
        header[..2].copy_from_slice(&[0x41, 0xe1]);
        header[9] = 5;
        header[16..20].copy_from_slice(&7u32.to_be_bytes());
        header[20..24].copy_from_slice(&4096u32.to_be_bytes());
        header[24..28].copy_from_slice(&8u32.to_be_bytes());
        header[28..32].copy_from_slice(&9u32.to_be_bytes());
        header[32] = 0x28;
        let (common, request) = parse(&header);
        assert_eq!(common, Common { is_immediate: true, task_tag: 7, cmd_sn: 8, exp_stat_sn: 9 });
        let Request::Command(command) = request else { panic!("{request:?}") };
        assert!(command.is_final && command.is_read && command.is_write);
        assert_eq!((command.address[1], command.expected_bytes, command.cdb[0]), (5, 4096, 0x28));
    }
}
